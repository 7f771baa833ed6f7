package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/queuegate/queuegate/proxy/admin"
	"github.com/queuegate/queuegate/queue"
)

// operatorFlags are what all commands below rooms have in common.
type operatorFlags struct {
	p                        process
	command                  string // what it is a flag of: "queuegate rooms"
	admin, config, tokenFile string
	by, output               string
	client                   *operatorClient // made before the command runs
	asJSON                   bool
}

// roomsCommand is the operator's client of a running gate's admin listener.
func roomsCommand(p process) *cobra.Command {
	o := &operatorFlags{p: p, command: "queuegate rooms"}
	cmd := &cobra.Command{
		Use: "rooms", Short: "Look at and change the rooms of a running gate; all gates follow",
		Long: "rooms speaks with the admin listener of one running gate. What it changes lives in Redis: all gates follow\n" +
			"within two seconds, and it stays, through restarts as well, until it is cleared (set ROOM --clear KEY).",
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&o.admin, "admin", "", "the admin `address` to ask, host:port or a URL (default: of the configuration, else QUEUEGATE_ADMIN_LISTEN, else 127.0.0.1:9090)")
	flags.StringVarP(&o.config, "config", "c", "", "the configuration `file` of the running gate, for address and token")
	flags.StringVar(&o.tokenFile, "token-file", "", "the `file` that holds the admin token (default: of the configuration, else QUEUEGATE_ADMIN_TOKEN or QUEUEGATE_ADMIN_TOKEN_FILE)")
	flags.StringVar(&o.by, "by", "", "`who` makes a change, for log and history (default: USER)")
	flags.StringVarP(&o.output, "output", "o", "table", "the `form` of what is printed: table or json")
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error { return o.prepare() }
	cmd.AddCommand(o.list(), o.show(), o.set(), o.pause(), o.resume(), o.admitCommand(), o.release(), o.reset(), o.visitor())
	return cmd
}

// prepare reads the flags that all have.
func (o *operatorFlags) prepare() error {
	if o.output != "table" && o.output != "json" {
		return usageError{fmt.Errorf("queuegate rooms: --output must be table or json (got %q)", o.output)}
	}
	o.asJSON = o.output == "json"
	if o.by == "" {
		o.by = lookup(o.p.environ, "USER", "")
	}
	var err error
	o.client, err = newOperatorClient(o)
	return err
}

// print writes an answer: as it came, or as text.
func (o *operatorFlags) print(raw []byte, v any, text func()) error {
	if o.asJSON {
		_, err := o.p.stdout.Write(raw)
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("the answer of %s is not that of a gate's admin listener: %w", o.client.base, err)
	}
	text()
	return nil
}

func (o *operatorFlags) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the rooms", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			raw, err := o.client.ask(cmd.Context(), http.MethodGet, "/api/rooms", nil)
			if err != nil {
				return err
			}
			var list admin.RoomList
			return o.print(raw, &list, func() { printRooms(o.p.stdout, list.Rooms) })
		},
	}
}

// room asks something of one room whose answer is that room.
func (o *operatorFlags) room(cmd *cobra.Command, method, name, below string, body any, header ...string) error {
	raw, err := o.client.ask(cmd.Context(), method, "/api/rooms/"+url.PathEscape(name)+below, body, header...)
	if err != nil {
		return err
	}
	var room admin.RoomView
	return o.print(raw, &room, func() { printRoom(o.p.stdout, room) })
}

func (o *operatorFlags) show() *cobra.Command {
	return &cobra.Command{
		Use: "show ROOM", Short: "Show a room: numbers, values in force and where they come from, the last changes", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.room(cmd, http.MethodGet, args[0], "", nil) },
	}
}

func (o *operatorFlags) set() *cobra.Command {
	cmd := &cobra.Command{
		Use: "set ROOM KEY=VALUE...", Short: "Set live values of a room, or clear them so that the file's count again",
		Example: "  queuegate rooms set checkout new_users_per_minute=300 message=\"We have slowed down a little\"\n" +
			"  queuegate rooms set checkout state=sold_out remaining_stock=0\n" +
			"  queuegate rooms set checkout --clear new_users_per_minute --clear message",
		Args: cobra.MinimumNArgs(1),
	}
	var names []string
	for _, name := range queue.AllSettings() {
		names = append(names, string(name))
	}
	cmd.Long = cmd.Short + ".\n\nThe keys are " + strings.Join(names, ", ") + "."
	cleared := cmd.Flags().StringArray("clear", nil, "the `key` of a value that is no longer to be set live; may be repeated")
	version := cmd.Flags().Int64("if-version", 0, "change nothing unless the room is still at this `version`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		change := map[string]any{}
		for _, pair := range args[1:] {
			key, text, ok := strings.Cut(pair, "=")
			if !ok {
				return usageError{fmt.Errorf("queuegate rooms set: %q: want KEY=VALUE; keys are %s", pair, strings.Join(names, ", "))}
			}
			change[key] = settingValue(key, text)
		}
		for _, key := range *cleared {
			if _, twice := change[key]; twice {
				return usageError{fmt.Errorf("queuegate rooms set: %s is both set and cleared", key)}
			}
			change[key] = nil
		}
		if len(change) == 0 {
			return usageError{errors.New("queuegate rooms set: nothing to change; give KEY=VALUE or --clear KEY (queuegate rooms set --help)")}
		}
		var header []string
		if *version > 0 {
			header = []string{"If-Match", strconv.Quote(strconv.FormatInt(*version, 10))}
		}
		return o.room(cmd, http.MethodPatch, args[0], "", change, header...)
	}
	return cmd
}

// settingValue is what was typed as JSON has it. What it should be the gate knows,
// and says.
func settingValue(key, text string) any {
	if key == string(queue.SettingMessage) || key == string(queue.SettingState) {
		return text
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if text == "true" || text == "false" {
		return text == "true"
	}
	return text
}

func (o *operatorFlags) pause() *cobra.Command {
	return &cobra.Command{
		Use: "pause ROOM", Short: "Let nobody new in for a while; order and those inside stay", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.room(cmd, http.MethodPatch, args[0], "", map[string]any{"state": queue.Paused})
		},
	}
}

func (o *operatorFlags) resume() *cobra.Command {
	return &cobra.Command{
		Use: "resume ROOM", Short: "Clear the live state: the room is as its file says, usually open, and nothing was saved up", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/api/rooms/" + url.PathEscape(args[0])
			raw, err := o.client.ask(cmd.Context(), http.MethodPatch, path, map[string]any{"state": nil})
			if err != nil {
				return err
			}
			var room admin.RoomView
			if err := json.Unmarshal(raw, &room); err == nil && room.State != string(queue.Open) {
				fmt.Fprintf(o.p.stderr, "The file says %s: nobody gets in. To open all the same: queuegate rooms set %s state=open\n", room.State, room.Room)
			}
			return o.print(raw, &room, func() { printRoom(o.p.stdout, room) })
		},
	}
}

func (o *operatorFlags) admitCommand() *cobra.Command {
	return &cobra.Command{
		Use: "admit ROOM COUNT", Short: "Let people in from the front of the line now, beside the rate, never beyond the slots", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			count, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil {
				return usageError{fmt.Errorf("queuegate rooms admit: %q is no whole number", args[1])}
			}
			raw, err := o.client.ask(cmd.Context(), http.MethodPost, "/api/rooms/"+url.PathEscape(args[0])+"/admit", map[string]any{"count": count})
			if err != nil {
				return err
			}
			var done admin.Admitted
			return o.print(raw, &done, func() {
				fmt.Fprintf(o.p.stdout, "Let in %d of %d; now %s waiting, %s active.\n", done.Admitted, done.Asked, orDash(done.Room.Waiting), orDash(done.Room.Active))
			})
		},
	}
}

// person asks something about one visitor.
func (o *operatorFlags) person(cmd *cobra.Command, method, path string, body any) error {
	raw, err := o.client.ask(cmd.Context(), method, path, body)
	if err != nil {
		return err
	}
	var v admin.VisitorView
	return o.print(raw, &v, func() { printVisitor(o.p.stdout, v) })
}

func (o *operatorFlags) release() *cobra.Command {
	return &cobra.Command{
		Use: "release ROOM VISITOR", Short: "End a visitor's stay, place or pass; the next one gets the slot", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.person(cmd, http.MethodPost, "/api/rooms/"+url.PathEscape(args[0])+"/release", map[string]any{"visitor": args[1]})
		},
	}
}

func (o *operatorFlags) visitor() *cobra.Command {
	return &cobra.Command{
		Use: "visitor ROOM VISITOR", Short: "Show where a visitor stands, by the id that the shop gets in X-Queuegate-Visitor", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.person(cmd, http.MethodGet, "/api/rooms/"+url.PathEscape(args[0])+"/visitors/"+url.PathEscape(args[1]), nil)
		},
	}
}

func (o *operatorFlags) reset() *cobra.Command {
	cmd := &cobra.Command{
		Use: "reset ROOM", Short: "Begin a room anew: every place and every pass becomes void", Args: cobra.ExactArgs(1),
	}
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !*yes {
			if err := o.confirm(cmd, args[0]); err != nil {
				return err
			}
		}
		return o.room(cmd, http.MethodPost, args[0], "/reset", map[string]any{"confirm": args[0]})
	}
	return cmd
}

// confirm asks whoever sits at the terminal for the name of the room.
func (o *operatorFlags) confirm(cmd *cobra.Command, name string) error {
	if !o.p.terminal {
		return usageError{fmt.Errorf("queuegate rooms reset: every place and every pass of %q would become void; nobody can be asked here: add --yes", name)}
	}
	raw, err := o.client.ask(cmd.Context(), http.MethodGet, "/api/rooms/"+url.PathEscape(name), nil)
	if err != nil {
		return err
	}
	var room admin.RoomView
	if err := json.Unmarshal(raw, &room); err != nil {
		return err
	}
	fmt.Fprintf(o.p.stderr, "Every place and every pass of %s becomes void: %s waiting, %s active.\nType the name of the room to go on: ",
		room.Room, orDash(room.Waiting), orDash(room.Active))
	typed, _ := bufio.NewReader(o.p.stdin).ReadString('\n')
	if strings.TrimSpace(typed) != room.Room {
		return errors.New("nothing was reset: that is not the name of the room")
	}
	return nil
}
