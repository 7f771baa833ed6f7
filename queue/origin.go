package queue

import "strconv"

// Origin tells where a value in force comes from.
type Origin string

// The origins of values.
const (
	FromFile Origin = "file"    // of the gate that was started or reloaded last
	FromLive Origin = "live"    // set while the room runs
	Derived  Origin = "derived" // follows from other values, or was bent to fit them
)

// InForce is one value in force and where it comes from.
type InForce struct {
	Value  string // empty: not known
	Origin Origin
	File   string // what the file says; empty: nothing
	Live   *Live  // what was set, nil when nothing is
}

// InForce tells all values in force and where they come from.
func (c Controls) InForce() map[Setting]InForce {
	asked, _ := values(c.asked()).settings()
	s, _ := c.inForce()
	texts, wanted := s.values(), asked.values()
	all := make(map[Setting]InForce, len(texts))
	for _, name := range AllSettings() {
		v := InForce{Value: texts[name], Origin: FromFile, File: c.File[name]}
		_, live := c.Live[name]
		if live {
			set := c.Live[name]
			v.Origin, v.Live = FromLive, &set
		}
		_, rate := c.Live[SettingPerMinute]
		if texts[name] != wanted[name] || name == SettingBurst && rate && !live {
			v.Origin = Derived
		}
		all[name] = v
	}
	return all
}

// values are the texts of settings.
func (s Settings) values() values {
	v := values{
		SettingState: string(s.State), SettingSlots: strconv.FormatInt(s.Limits.Slots, 10),
		SettingPerMinute: strconv.FormatInt(s.Limits.PerMinute, 10), SettingBurst: strconv.FormatInt(s.Limits.Burst, 10),
		SettingSession: s.Session.String(), SettingSessionMax: s.SessionMax.String(),
		SettingDisableRenewal: strconv.FormatBool(s.DisableRenewal), SettingMessage: s.Message,
	}
	if s.Stock != nil {
		v[SettingStock] = strconv.FormatInt(*s.Stock, 10)
	}
	return v
}
