package page

import (
	_ "embed" // the style, the script and the template are files
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

//go:embed queue.html.tmpl
var pageTemplate string

//go:embed queue.css
var pageStyle string

//go:embed queue.js
var pageScript string

// maxLogo bounds the file of a logo in bytes.
const maxLogo = 4 << 10

// parts are what a page is made of.
type parts struct {
	name                  string // of the template, for its errors
	markup, style, script string
}

// readParts returns the built-in parts, each replaced by the file of its name in
// dir when there is one.
func readParts(dir string) (parts, error) {
	p := parts{name: "queue.html.tmpl", markup: pageTemplate, style: pageStyle, script: pageScript}
	if dir == "" {
		return p, nil
	}
	found := 0
	for name, part := range map[string]*string{"queue.html.tmpl": &p.markup, "queue.css": &p.style, "queue.js": &p.script} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return parts{}, fmt.Errorf("page: template: %w", err)
		}
		found++
		*part = string(raw)
		if part == &p.markup {
			p.name = filepath.Join(dir, name)
		}
	}
	if found == 0 {
		return parts{}, fmt.Errorf("page: template: %s has none of queue.html.tmpl, queue.css and queue.js", dir)
	}
	return p, nil
}

// logoSource is the address of a logo: data, or a path of this origin. Empty for
// none.
func logoSource(logo string) (string, error) {
	if logo == "" {
		return "", nil
	}
	if path, ok := strings.CutPrefix(logo, "shop:"); ok {
		if target(path) == "" {
			return "", fmt.Errorf("page: logo: %q must be shop: and a path of the shop, such as shop:/logo.svg", logo)
		}
		return path, nil
	}
	raw, err := os.ReadFile(logo)
	if err != nil {
		return "", fmt.Errorf("page: logo: %w", err)
	}
	if len(raw) > maxLogo {
		return "", fmt.Errorf("page: logo: %s has %d bytes, at most %d are sent with every page; make it smaller or name it as shop:/path", logo, len(raw), maxLogo)
	}
	kind := http.DetectContentType(raw)
	switch {
	case strings.EqualFold(filepath.Ext(logo), ".svg") && strings.Contains(string(raw), "<svg"):
		kind = "image/svg+xml"
	case kind == "image/png", kind == "image/jpeg", kind == "image/gif", kind == "image/webp":
	default:
		return "", fmt.Errorf("page: logo: %s is no SVG, PNG, JPEG, GIF or WebP", logo)
	}
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(raw), nil
}

// rgb is a colour whose parts go from 0 to 1.
type rgb [3]float64

// The backgrounds of queue.css on which the accent is seen and that are the
// nearest to it, and the darkest text on an accent.
var (
	lightGround = rgb{0xee / 255., 0xf2 / 255., 0xf6 / 255.}
	darkGround  = rgb{0x18 / 255., 0x20 / 255., 0x29 / 255.}
)

// readable is the least contrast of text (WCAG 2.2, 1.4.3).
const readable = 4.5

var accentPattern = regexp.MustCompile(`^#([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$`)

// accentStyle is the style that puts an accent in the place of the built-in one.
func accentStyle(accent string) (string, error) {
	if accent == "" {
		return "", nil
	}
	if !accentPattern.MatchString(accent) {
		return "", fmt.Errorf("page: accent: %q is no colour such as #14599f", accent)
	}
	hex := accent[1:]
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	n, err := strconv.ParseUint(hex, 16, 32)
	if err != nil {
		return "", fmt.Errorf("page: accent: %w", err)
	}
	c := rgb{float64(n>>16) / 255, float64(n>>8&0xff) / 255, float64(n&0xff) / 255}
	light, dark := c.against(lightGround, rgb{}), c.against(darkGround, rgb{1, 1, 1})
	return ":root{--accent:" + light.String() + ";--on-accent:#ffffff}\n" +
		"@media (prefers-color-scheme: dark){:root{--accent:" + dark.String() + ";--on-accent:#0b1a2b}}\n", nil
}

// against returns the colour, moved towards another one until it can be read on
// the ground.
func (c rgb) against(ground, towards rgb) rgb {
	const steps = 50
	for step := range steps {
		share := float64(step) / steps
		var moved rgb
		for i := range moved {
			moved[i] = math.Round(255*(c[i]+(towards[i]-c[i])*share)) / 255
		}
		if contrast(moved, ground) >= readable {
			return moved
		}
	}
	return towards
}

// String is #rrggbb.
func (c rgb) String() string {
	return fmt.Sprintf("#%02x%02x%02x", int(math.Round(255*c[0])), int(math.Round(255*c[1])), int(math.Round(255*c[2])))
}

// luminance is the relative luminance of WCAG 2.2.
func (c rgb) luminance() float64 {
	for i, part := range c {
		if part <= 0.04045 {
			c[i] = part / 12.92
		} else {
			c[i] = math.Pow((part+0.055)/1.055, 2.4)
		}
	}
	return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2]
}

// contrast is the contrast ratio of WCAG 2.2, from 1 to 21.
func contrast(a, b rgb) float64 {
	x, y := a.luminance(), b.luminance()
	return (math.Max(x, y) + 0.05) / (math.Min(x, y) + 0.05)
}
