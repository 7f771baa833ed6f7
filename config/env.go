package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
)

// envPrefix begins every variable of the gate.
const envPrefix = "QUEUEGATE_"

// fileSuffix ends the variable that names the file of a secret.
const fileSuffix = "_FILE"

// serviceLink matches the variables Kubernetes sets for each Service. For a
// Service called queuegate-redis that is QUEUEGATE_REDIS_PORT and the like;
// they are none of ours.
var serviceLink = regexp.MustCompile(
	`^QUEUEGATE_(?:[A-Z0-9_]+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT|PORT_[0-9]+_[A-Z0-9_]+)$`)

// EnvName is a variable of the environment that sets a key.
type EnvName struct {
	// Name of the variable, as QUEUEGATE_REDIS_TIMEOUT.
	Name string
	// Key it sets, as redis.timeout.
	Key string
	// Secret means the value must not be shown.
	Secret bool
	// File means the variable names a file that holds the value.
	File bool

	typ reflect.Type
}

// EnvNames lists every variable the gate reads, in the order of the keys. Each
// secret has two: the value, and the file that holds it.
func EnvNames() []EnvName {
	var names []EnvName
	for _, l := range leaves() {
		if l.inRooms() {
			continue
		}
		name := envPrefix + strings.ToUpper(strings.ReplaceAll(l.pattern, ".", "_"))
		names = append(names, EnvName{Name: name, Key: l.pattern, Secret: l.secret(), typ: l.typ})
		if l.secret() {
			names = append(names, EnvName{Name: name + fileSuffix, Key: l.pattern, Secret: true, File: true, typ: l.typ})
		}
	}
	return names
}

// overlay lays the variables of environ over c. Each text is first judged here,
// for a message that names the variable; viper then decodes all of them into c
// without weak typing. Viper gets the values by Set and not by BindEnv: BindEnv
// reads the environment of the process, and sees a variable set to the empty
// text as not set.
func (l *loader) overlay(environ []string, c *Config) {
	v := viper.New()
	for _, name := range l.variables(environ) {
		if name.File {
			l.files = append(l.files, name.text)
		}
		value, wrong, err := name.read()
		if wrong != "" {
			l.bad[name.Key] = true
			l.problems = append(l.problems, Problem{Env: name.Name, Key: name.Key, Message: wrong, Err: err})
			continue
		}
		l.env[name.Key] = name.Name
		delete(l.bad, name.Key)
		v.Set(name.Key, value)
	}
	err := v.UnmarshalExact(c, func(dc *mapstructure.DecoderConfig) {
		dc.TagName = "yaml"
		dc.WeaklyTypedInput = false
		dc.DecodeHook = mapstructure.ComposeDecodeHookFunc(
			mapstructure.StringToTimeDurationHookFunc(),
			mapstructure.StringToBasicTypeHookFunc(),
		)
	})
	if err != nil {
		// Cannot happen after the judgement above. If it does, refuse, and
		// without the text of err, which may quote a value.
		l.problems = append(l.problems, Problem{Message: "the environment cannot be read; unset the QUEUEGATE_ variables one by one to find which"})
	}
}

// setVariable is a variable of the gate with its text.
type setVariable struct {
	EnvName
	text string
}

// variables picks the gate's variables from environ and reports those that do
// not exist or contradict each other. Of two entries with one name the first
// counts, as in os.Getenv.
func (l *loader) variables(environ []string) []setVariable {
	set := map[string]string{}
	for _, entry := range environ {
		name, text, _ := strings.Cut(entry, "=")
		if _, twice := set[name]; !twice && strings.HasPrefix(name, envPrefix) {
			set[name] = text
		}
	}
	var found []setVariable
	var all []string
	for _, known := range EnvNames() {
		all = append(all, known.Name)
		text, ok := set[known.Name]
		if !ok {
			continue
		}
		delete(set, known.Name)
		if last := len(found) - 1; known.File && last >= 0 && found[last].Key == known.Key {
			l.bad[known.Key] = true
			l.problems = append(l.problems, Problem{Env: known.Name, Key: known.Key,
				Message: fmt.Sprintf("is set together with %s; unset one of them", found[last].Name)})
			found = found[:last]
			continue
		}
		found = append(found, setVariable{known, text})
	}
	for name := range set {
		if !serviceLink.MatchString(name) {
			l.unknownVariable(name, all)
		}
	}
	return found
}

func (l *loader) unknownVariable(name string, all []string) {
	message := "unknown variable; unset it"
	if strings.HasPrefix(name, envPrefix+"ROOMS") {
		message = "rooms can only be set in the file; unset it"
	} else if meant := nearest(name[len(envPrefix):], trimPrefixes(all)); meant != "" {
		message = fmt.Sprintf("unknown variable; did you mean %s?", envPrefix+meant)
	}
	if !plainKey.MatchString(name) {
		name = quote(name)
	}
	l.problems = append(l.problems, Problem{Env: name, Message: message})
}

func trimPrefixes(names []string) []string {
	short := make([]string, len(names))
	for i, name := range names {
		short[i] = strings.TrimPrefix(name, envPrefix)
	}
	return short
}

// read gives the value of the variable in a form viper decodes without weak
// typing, or what is wrong with it and the cause if there is one.
func (s setVariable) read() (value any, wrong string, cause error) {
	text := s.text
	if s.Secret {
		text = trailingLine.ReplaceAllString(text, "")
	}
	if s.Secret && text == "" {
		return nil, "is set but empty; give it a value or unset it", nil
	}
	if s.File {
		data, err := readRegular(text)
		if err != nil {
			return nil, "the file it names cannot be read: " + reason(err), err
		}
		text = trailingLine.ReplaceAllString(string(data), "")
		if text == "" {
			return nil, "the file it names is empty", nil
		}
	}
	if s.typ.Kind() == reflect.Slice {
		items := splitList(text, ",")
		if s.File {
			items = splitSecrets(text)
		}
		for _, item := range items {
			if item == "" {
				return nil, "has an empty item; write a,b,c", nil
			}
			if _, wrong := parseScalar(s.typ.Elem(), item); wrong != "" {
				return nil, wrong, nil
			}
		}
		return items, "", nil
	}
	if _, wrong := parseScalar(s.typ, text); wrong != "" {
		return nil, wrong, nil
	}
	return text, "", nil
}

// splitList splits at sep and trims the items; the empty text has none.
func splitList(text, sep string) []string {
	if strings.TrimSpace(text) == "" {
		return []string{}
	}
	items := strings.Split(text, sep)
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}

// splitSecrets reads a file of several secrets: one a line, a PEM block being
// one however many lines it has.
func splitSecrets(text string) []string {
	var items []string
	var block []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "-----END") && block != nil:
			items = append(items, strings.Join(append(block, line), "\n")+"\n")
			block = nil
		case strings.HasPrefix(line, "-----BEGIN") || block != nil:
			block = append(block, line)
		case line != "":
			items = append(items, line)
		}
	}
	if block != nil {
		items = append(items, strings.Join(block, "\n"))
	}
	return items
}
