// Package config reads the configuration of queuegate: one YAML file, laid
// over the defaults, with the environment laid over both.
//
// The order, weakest first:
//
//  1. Default and, for each room, DefaultRoom.
//  2. The file: one YAML document, read strictly. Unknown keys, duplicate
//     keys, keys without a value, bare numbers for durations, anchors and tags
//     are refused.
//  3. The environment: QUEUEGATE_ and the key in capitals with "_" for ".",
//     for every scalar and every list of scalars outside rooms. Lists are
//     separated by commas. Each secret can also come from a file named by the
//     same variable with _FILE appended.
//
// Then the whole is validated. Every problem found on the way is reported at
// once, with file, line, key and remedy, and a configuration with a problem is
// never handed out: a gate that misreads its rules must not start.
//
// Secrets have a type of their own (Secret) that shows itself only through
// Reveal, and no problem ever quotes one.
package config
