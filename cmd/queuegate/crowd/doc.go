// Package crowd makes visitors and judges a gate by what they met.
//
// A Person behaves over HTTP as somebody with a browser or an app does: arrives,
// stands in line, asks as often as told, goes in, orders, leaves, reloads, loses
// patience, comes back. What each did and was answered is their History. Evidence
// is all that is known of one room, and its checks say which promise was broken.
//
// Two clocks are in it and are never compared: At, the time of this process since
// the run began, and room time, which passes tell. Every check holds on a machine
// of any speed: what happened between the sending of a request and its answer
// happened at some moment in between, and a check counts only what is certain at
// every such moment. A gate that keeps its promises therefore never fails one,
// however late gate, network or this process are.
package crowd
