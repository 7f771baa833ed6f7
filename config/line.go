package config

// Line returns the line of the configuration file at path on which a key such as
// rooms[0].protect[1].paths[0] stands, or the section around it; 0 when it stands
// nowhere or the file cannot be read.
func Line(path, key string) int {
	data, err := readRegular(path)
	if err != nil {
		return 0
	}
	c := Default()
	l := &loader{file: path, lines: map[string]int{}, env: map[string]string{}, bad: map[string]bool{}}
	l.decode(data, &c)
	return l.locate([]Problem{{Key: key}})[0].Line
}
