package page_test

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy/page"
)

// colours are the custom properties of one block of the style.
func colours(t *testing.T, block string) map[string][3]float64 {
	t.Helper()
	got := map[string][3]float64{}
	for _, m := range regexp.MustCompile(`--([a-z-]+):#([0-9a-f]{6})`).FindAllStringSubmatch(block, -1) {
		var rgb [3]float64
		for i := range rgb {
			n, err := strconv.ParseUint(m[2][2*i:2*i+2], 16, 8)
			require.NoError(t, err)
			rgb[i] = float64(n) / 255
		}
		got[m[1]] = rgb
	}
	return got
}

// luminance and contrast are those of WCAG 2.2.
func luminance(rgb [3]float64) float64 {
	for i, c := range rgb {
		if c <= 0.04045 {
			rgb[i] = c / 12.92
		} else {
			rgb[i] = math.Pow((c+0.055)/1.055, 2.4)
		}
	}
	return 0.2126*rgb[0] + 0.7152*rgb[1] + 0.0722*rgb[2]
}

func contrast(a, b [3]float64) float64 {
	x, y := luminance(a), luminance(b)
	return (math.Max(x, y) + 0.05) / (math.Min(x, y) + 0.05)
}

func TestColoursCanBeReadInLightAndDark(t *testing.T) {
	for _, accent := range []string{"", "#000", "#ffffff", "#ffe600", "#e2001a", "#7f7f7f", "#00ff00", "#0000ff"} {
		t.Run("accent "+accent, func(t *testing.T) { readable(t, accent) })
	}
	require.InDelta(t, 21, contrast([3]float64{1, 1, 1}, [3]float64{}), 0.001, "the formula")
}

func readable(t *testing.T, accent string) {
	body := render(t, page.Options{Accent: accent}, waiting())
	light, dark, found := strings.Cut(body[strings.Index(body, ":root"):], "@media(prefers-color-scheme:dark)")
	require.True(t, found)
	dark, rest, _ := strings.Cut(dark, "*{")
	if accent != "" { // stands at the end, for both
		_, own, found := strings.Cut(rest, ":root{--accent")
		require.True(t, found)
		ownLight, ownDark, _ := strings.Cut("--accent"+own, "@media")
		ownDark, _, _ = strings.Cut(ownDark, "</style>")
		light, dark = light+ownLight, dark+ownDark
	}
	for name, c := range map[string]map[string][3]float64{"light": colours(t, light), "dark": colours(t, dark)} {
		for _, pair := range []struct {
			front, back string
			least       float64
		}{
			{"text", "card", 4.5}, {"text", "ground", 4.5},
			{"muted", "card", 4.5}, {"muted", "ground", 4.5},
			{"accent", "card", 4.5}, {"accent", "ground", 4.5},
			{"on-accent", "accent", 4.5}, {"on-note", "note", 4.5},
			{"edge", "card", 3}, {"edge", "ground", 3}, // borders of controls
		} {
			front, ok := c[pair.front]
			require.True(t, ok, "%s: --%s", name, pair.front)
			back, ok := c[pair.back]
			require.True(t, ok, "%s: --%s", name, pair.back)
			require.GreaterOrEqual(t, contrast(front, back), pair.least, "%s: %s on %s", name, pair.front, pair.back)
		}
	}
}
