package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// startPatience is how long a program may take until it answers, farewell how
	// long until it has ended by itself.
	startPatience = 30 * time.Second
	farewell      = 3 * time.Second
	lookAgain     = 5 * time.Millisecond
)

// stage is where a run takes place: a folder, and the processes started in it.
type stage struct {
	dir       string
	processes []*process
}

// process is a program that runs until the stage is cleared.
type process struct {
	name  string
	cmd   *exec.Cmd
	log   string // file with all it wrote
	ended chan struct{}
}

func newStage() (*stage, error) {
	dir, err := os.MkdirTemp("", "queuegate-bench-")
	if err != nil {
		return nil, err
	}
	return &stage{dir: dir}, nil
}

// file writes a file into the folder and returns its path.
func (s *stage) file(name, text string) (string, error) {
	path := filepath.Join(s.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// start starts a program. It dies with this process, and is in a group of its own:
// Ctrl-C reaches this process alone, which ends them in order.
func (s *stage) start(name, program string, args ...string) (*process, error) {
	log, err := os.CreateTemp(s.dir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p := &process{name: name, cmd: exec.Command(program, args...), log: log.Name(), ended: make(chan struct{})} //nolint:noctx // it outlives every call and is ended by clear
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	s.processes = append(s.processes, p)
	return p, nil
}

// await waits until a process is ready by the test that is given.
func (p *process) await(ctx context.Context, ready func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		select {
		case <-p.ended:
			return fmt.Errorf("%s has ended: %s", p.name, p.words())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %s", p.name, ctx.Err(), p.words())
		case <-time.After(lookAgain):
			if ready() && p.alive() {
				return nil
			}
		}
	}
}

func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// words are the last of what it wrote.
func (p *process) words() string {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(raw[max(0, len(raw)-1000):]))
}

// end ends the process and waits for that.
func (p *process) end() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(farewell):
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.ended
	}
}

// clear ends what was started, the last first, and removes the folder.
func (s *stage) clear() {
	for len(s.processes) > 0 {
		last := len(s.processes) - 1
		s.processes[last].end()
		s.processes = s.processes[:last]
	}
	_ = os.RemoveAll(s.dir)
}

// onPort starts a program that cannot choose its port by itself. Another process
// may be faster to take it: then the program ends, and another port is tried.
func (s *stage) onPort(ctx context.Context, name string, start func(port string) (*process, error)) (*process, string, error) {
	var failed error
	for range 3 {
		port, err := freePort()
		if err != nil {
			return nil, "", err
		}
		p, err := start(port)
		if err != nil {
			return nil, "", err
		}
		err = p.await(ctx, func() bool { return listens(port) })
		if err == nil {
			return p, net.JoinHostPort("127.0.0.1", port), nil
		}
		failed = errors.Join(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, "", fmt.Errorf("%s: %w", name, failed)
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it binds at once
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

func listens(port string) bool {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", port), time.Second) //nolint:noctx // a second at most
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
