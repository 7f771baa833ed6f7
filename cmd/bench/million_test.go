package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestASaleIsReplayed runs it with a hundred people.
func TestASaleIsReplayed(t *testing.T) {
	dir := t.TempDir()
	readme := filepath.Join(dir, "README.md")
	require.NoError(t, os.WriteFile(readme, []byte("before\n"+saleBegin+"old"+saleEnd+"\nafter\n"), 0o600))
	var out, log bytes.Buffer
	code := run(t.Context(), []string{"million", "-gate", program(t, "queuegate"), "-out", dir, "-readme", readme, "-people", "100", "-rate", "200", "-hold", "1s", "-polls", "1"}, &out, &log)
	require.Zero(t, code, "%s\n%s", log.String(), out.String())
	require.Contains(t, out.String(), "nobody lost: of 100 people 0 did not get in, and the shop counted 100 visits")
	require.NotContains(t, out.String(), "**no**")
	text, err := os.ReadFile(filepath.Join(dir, "million.md"))
	require.NoError(t, err)
	require.Equal(t, out.String(), string(text))
	text, err = os.ReadFile(readme)
	require.NoError(t, err)
	figures, _, found := strings.Cut(out.String(), "\n"+tableHead)
	require.True(t, found)
	require.Equal(t, "before\n"+saleBegin+"\n"+figures+saleEnd+"\nafter\n", string(text))
}

// TestASaleThatIsNotOverInTimeIsTold, and fails: those who are still in line are lost
// to it.
func TestASaleThatIsNotOverInTimeIsTold(t *testing.T) {
	dir := t.TempDir()
	var out, log bytes.Buffer
	code := run(t.Context(), []string{"million", "-gate", program(t, "queuegate"), "-out", dir, "-people", "40", "-rate", "20", "-hold", "1h", "-bound", "1s"}, &out, &log)
	require.Equal(t, exitRuntime, code)
	require.Contains(t, log.String(), "deadline exceeded")
	require.Contains(t, out.String(), "**no**: nobody lost: of 40 people 40 did not get in, and the shop counted 0 visits")
	require.Contains(t, out.String(), "yes: order exact: 0 were let in before")
	require.FileExists(t, filepath.Join(dir, "million.md"))
}

// three are people who came one after the other and were let in like that.
func three() *people {
	p := newPeople(sale{people: 3, rate: 1, polls: 2})
	for i := range p.all {
		at := time.Duration(i) * time.Second
		p.all[i] = person{sent: at, got: at + time.Second/2, place: int64(100 + i), granted: int64(5000 + 10*i), polls: 2, in: true, here: at + time.Second, waited: 9 * time.Second}
	}
	return p
}

func TestTheSaleIsJudged(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*people)
		visits int
		broken string // "" for nothing
	}{
		"all well":                            {func(*people) {}, 3, ""},
		"let in together":                     {func(p *people) { p.all[1].granted = 5000 }, 3, ""},
		"one lost":                            {func(p *people) { p.all[2].in = false }, 2, "1 did not get in"},
		"one in twice":                        {func(*people) {}, 4, "the shop counted 4 visits"},
		"one who was late overtaken":          {func(p *people) { p.all[0].granted, p.all[0].late = 6000, true }, 3, ""},
		"one who had not asked yet overtaken": {func(p *people) { p.all[0].granted, p.all[0].here = 6000, 10*time.Second }, 3, ""},
		"one overtaken":                       {func(p *people) { p.all[0].granted = 6000 }, 3, "2 were let in before somebody with an earlier place"},
		"a silent pass":                       {func(p *people) { p.all[0].granted = 0 }, 3, "1 passes do not tell"},
		"places exchanged": {func(p *people) {
			a, b := &p.all[0], &p.all[1]
			a.place, b.place = b.place, a.place
			a.granted, b.granted = b.granted, a.granted
		}, 3, "1 have one in front of somebody"},
		"too many in a minute": {func(p *people) {
			p.rate = 0 // of which no room's limit can be
		}, 3, "rate kept: at most 3 were let in within 60 s, of -1 allowed"},
		"one asked once":  {func(p *people) { p.all[1].polls = 1 }, 3, "asked 2 times or more, each when told: 1 did not; least 1"},
		"one pushed back": {func(p *people) { p.all[1].behind = 1 }, 3, "never grew: it did for 1"},
	} {
		t.Run(name, func(t *testing.T) {
			p := three()
			tc.change(p)
			verdict, err := p.judge(tc.visits)
			if tc.broken == "" {
				require.NoError(t, err)
				require.NotContains(t, verdict, "**no**")
				return
			}
			require.ErrorContains(t, err, tc.broken)
			require.Contains(t, verdict, "**no**: ")
		})
	}
}

// Joins that were under way at the same time may get their places either way.
func TestJoinsAtTheSameTimeHaveNoOrder(t *testing.T) {
	p := three()
	p.all[0].got = 3 * time.Second
	p.all[0].place, p.all[1].place = p.all[1].place, p.all[0].place
	require.Zero(t, p.outOfTurn())
}

func TestMembersOfADocumentAreFound(t *testing.T) {
	body := []byte(`{"room":"sale","status":"waiting","ahead":17,"behind":null,"poll_after_ms":1500}`)
	require.Equal(t, "waiting", field(body, "status", '"'))
	require.Equal(t, "17", field(body, "ahead", 0))
	require.Equal(t, "1500", field(body, "poll_after_ms", 0))
	require.Empty(t, field(body, "ticket", '"'))
	require.Empty(t, field(body, "ahead", '"'))
}
