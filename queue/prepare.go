package queue

// Prepare checks other options for this line, as New does, and returns what puts
// them in force; without calling it nothing has changed. What the line is stays:
// Redis, Hints, Room, Prefix, Gate, Timeout, Log and Observe are those of New, and so
// is everything it knows. A process that reads its configuration again therefore
// forgets no pass, no end and no order under way, and Redis sees the same gate.
//
// Calls obey the new options from then on. The values of the file are told to Redis
// by the next tick of Run, for all gates, and count once it has taken them; live
// values stay as they are. MaxRequest never becomes shorter: requests that are in
// flight have begun under the old one.
func (l *Line) Prepare(o Options) (apply func(), err error) {
	was := l.opts()
	o.Redis, o.Hints, o.Room, o.Prefix, o.Gate = was.Redis, was.Hints, was.Room, was.Prefix, was.Gate
	o.Timeout, o.Log, o.Observe = was.Timeout, was.Log, was.Observe
	o = o.withDefaults()
	o.MaxRequest = max(o.MaxRequest, was.MaxRequest)
	if err := o.validate(); err != nil {
		return nil, err
	}
	file := o.fileValues()
	settings, err := file.settings()
	if err != nil {
		return nil, err
	}
	return func() {
		l.options.Store(&o)
		if known := l.control.Load(); known.controls.Version == 0 { // Redis was never reached: nothing else is known
			l.control.CompareAndSwap(known, &control{controls: Controls{File: file}, settings: settings})
		}
		l.refiled.Store(true)
		ring(l.hurry)
	}, nil
}

// opts are the options in force. Whoever needs several takes them once.
func (l *Line) opts() *Options { return l.options.Load() }
