// Package chaos draws what goes wrong during a run of real gates, and judges what
// people and watchers met by what is promised. Both are pure: the same seed draws the
// same troubles, and the same evidence gets the same judgement. Who makes the troubles
// and who collects the evidence are the tests beside the program.
package chaos
