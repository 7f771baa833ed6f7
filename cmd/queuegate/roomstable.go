package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/queuegate/queuegate/proxy/admin"
	"github.com/queuegate/queuegate/queue"
)

// shown is a text as a terminal may have it: one with control characters, line ends
// among them, is quoted.
func shown(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

func orDash[T any](v *T) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(*v)
}

// cell is a value of JSON in a table.
func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case string:
		if v == "" {
			return "-"
		}
		return shown(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// live marks a value that is not the file's.
func live(s admin.SettingView) string {
	if s.Source == queue.FromFile {
		return cell(s.Value)
	}
	return cell(s.Value) + "*"
}

func wait(seconds *int64) string {
	if seconds == nil {
		return "-"
	}
	return (time.Duration(*seconds) * time.Second).String()
}

func redisWord(up bool) string {
	if up {
		return "up"
	}
	return "AWAY"
}

func printRooms(out io.Writer, rooms []admin.RoomView) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ROOM\tSTATE\tWAITING\tACTIVE\tLIMIT\tPER MINUTE\tADMITTED/MIN\tWAIT\tREDIS")
	starred := false
	for _, r := range rooms {
		state := r.State
		if s, ok := r.Settings[queue.SettingState]; ok {
			state = live(s)
		}
		if r.Shadow {
			state += " (shadow)"
		}
		row := []string{
			r.Room, state, orDash(r.Waiting), orDash(r.Active), live(r.Settings[queue.SettingSlots]), live(r.Settings[queue.SettingPerMinute]),
			orDash(r.Admissions), wait(r.Wait), redisWord(r.RedisUp),
		}
		if r.Settings == nil {
			row = []string{r.Room, state, "-", "-", "-", "-", "-", "-", "-"}
		}
		line := strings.Join(row, "\t")
		starred = starred || strings.Contains(line, "*")
		fmt.Fprintln(w, line)
	}
	_ = w.Flush()
	if starred {
		fmt.Fprintln(out, "* set live: the file says something else, or will when this is cleared")
	}
}

func printRoom(out io.Writer, r admin.RoomView) {
	fmt.Fprintf(out, "%s (%s): %s\n", r.Room, r.QueueingMethod, r.State)
	if r.Shadow {
		fmt.Fprintln(out, "In shadow: it decides and counts, and everybody passes.")
	}
	if r.Settings == nil {
		fmt.Fprintln(out, "Everybody passes by the file: no line, no values.")
		return
	}
	fmt.Fprintf(out, "waiting %s, active %s, admitted a minute %s, wait at the end of the line %s, redis %s\n",
		orDash(r.Waiting), orDash(r.Active), orDash(r.Admissions), wait(r.Wait), redisWord(r.RedisUp))
	if r.Healing > 0 {
		fmt.Fprintf(out, "Redis lost its history: nobody is admitted for %d s more, while the line is brought back\n", r.Healing)
	}
	fmt.Fprintf(out, "version %d, generation %d\n\n", r.Version, r.Generation)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tVALUE\tFROM\tFILE\tSET BY\tAT")
	for _, name := range queue.AllSettings() {
		s, ok := r.Settings[name]
		if !ok {
			continue
		}
		by, at := "-", "-"
		if s.Live != nil {
			by, at = shown(s.Live.By), moment(s.Live.At)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", name, cell(s.Value), s.Source, cell(s.File), by, at)
	}
	_ = w.Flush()
	if len(r.History) == 0 {
		return
	}
	fmt.Fprintln(out, "\nlast changes")
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "AT\tBY\tWHAT\tOLD\tNEW")
	for _, c := range r.History {
		now := cell(c.New)
		if c.Cleared {
			now += " (cleared)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", moment(c.At), shown(c.By), c.What, cell(c.Old), now)
	}
	_ = w.Flush()
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

func printVisitor(out io.Writer, v admin.VisitorView) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" && value != "-" {
			fmt.Fprintf(w, "%s\t%s\n", name, value)
		}
	}
	row("room", v.Room)
	row("visitor", shown(v.Visitor))
	row("status", v.Status)
	row("why", v.Why)
	row("place", orDash(v.Place))
	row("people ahead", orDash(v.Ahead))
	row("wait", wait(v.Wait))
	if v.Joined != nil {
		row("joined", moment(*v.Joined))
	}
	row("admission", shown(v.Admission))
	if v.LeaseEnd != nil {
		row("lease ends", moment(*v.LeaseEnd))
	}
	if v.Ordering {
		row("order", "in flight")
	}
	_ = w.Flush()
}
