package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// chromium finds the browser, and installs it if the machine lacks it.
var chromium = sync.OnceValues(func() (string, error) {
	find := func() (string, bool) {
		for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
			if path, err := exec.LookPath(name); err == nil {
				return path, true
			}
		}
		return "", false
	}
	if path, ok := find(); ok {
		return path, nil
	}
	out, err := exec.Command("../../../.ci/setup-chromium").CombinedOutput()
	if path, ok := find(); ok {
		return path, nil
	}
	return "", fmt.Errorf("%w: %s", err, out)
})

// A tab is a page in a separate browser, with its console messages and its requests.
type tab struct {
	ctx      context.Context
	mu       sync.Mutex
	console  []string // messages and exceptions
	requests []string // addresses, except those of the page itself and of data within it
}

// openTab opens a file in a fresh Chromium window of the given size.
func openTab(t *testing.T, file string, width, height int64, dark bool) *tab {
	t.Helper()
	browser, err := chromium()
	if err != nil {
		t.Skipf("no Chromium, and it cannot be installed, so that reports are not tested in a browser: %v", err)
	}
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(browser), chromedp.UserDataDir(t.TempDir()),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun}
	for _, flag := range []string{"disable-quic", "disable-background-networking", "disable-component-update",
		"disable-sync", "hide-scrollbars"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{ctx: ctx}
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	address := "file://" + path
	err = chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			text := "console." + string(e.Type) + ":"
			for _, a := range e.Args {
				text += " " + string(a.Value) + a.Description
			}
			b.console = append(b.console, text)
		case *runtime.EventExceptionThrown:
			text := "exception: " + e.ExceptionDetails.Text
			if e.ExceptionDetails.Exception != nil {
				text += " " + e.ExceptionDetails.Exception.Description
			}
			b.console = append(b.console, text)
		case *log.EventEntryAdded:
			b.console = append(b.console, fmt.Sprintf("log %s: %s", e.Entry.Level, e.Entry.Text))
		case *network.EventRequestWillBeSent:
			u := e.Request.URL
			if u != address && !strings.HasPrefix(u, "data:") && !strings.HasPrefix(u, "blob:") {
				b.requests = append(b.requests, u)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.do(t, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, network.Enable, network.EnableParams{})
		if err == nil {
			_, err = cdp.Call(ctx, target, log.Enable, cdp.Empty{})
		}
		if err == nil {
			_, err = cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		}
		return err
	}), chromedp.EmulateViewport(width, height), chromedp.Navigate(address))
	b.wait(t, "the charts", `window.parsimon && window.parsimon.ready`)
	return b
}

func (b *tab) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		t.Fatalf("%v; the page said %q", err, b.console)
	}
}

// eval runs JavaScript in the page.
func eval[T any](t *testing.T, b *tab, script string) T {
	t.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v; the page said %q", script, err, b.console)
	}
	return out
}

// wait waits until an expression is true.
func (b *tab) wait(t *testing.T, what, expression string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if eval[bool](t, b, "!!("+expression+")") {
			return
		}
	}
	t.Fatalf("waited in vain for %s; the page said %q", what, b.console)
}

// quiet fails the test if the page wrote to the console or made a request.
func (b *tab) quiet(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.console) > 0 {
		t.Errorf("the page wrote to the console: %q", b.console)
	}
	if len(b.requests) > 0 {
		t.Errorf("the page made requests: %q", b.requests)
	}
}

// picture keeps a screenshot of the whole page as an artifact of the test.
func (b *tab) picture(t *testing.T, name string) {
	t.Helper()
	data, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	dir := "../../../.cache/pictures"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	if len(data) < 10_000 {
		t.Errorf("picture %s has %d bytes: the page is empty", name, len(data))
	}
}
