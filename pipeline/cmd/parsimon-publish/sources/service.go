package sources

import (
	"context"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"

	"parsimon/pipeline/cmd/publishing"
	"parsimon/pipeline/workloads"
)

// A Service answers the calls of publishing.ListMethod and publishing.CopyMethod.
type Service struct {
	buckets *Buckets
	context func() context.Context // of all calls
	end     context.CancelFunc
}

// NewService returns a service. Its calls end with the context.
func NewService(ctx context.Context, b *Buckets) *Service {
	ctx, cancel := context.WithCancel(ctx)
	return &Service{buckets: b, context: func() context.Context { return ctx }, end: cancel}
}

// Serve answers calls of JSON-RPC until the input ends. Calls that are under way then fail.
func (s *Service) Serve(in io.Reader, out io.Writer) error {
	server := rpc.NewServer()
	if err := server.RegisterName(publishing.Service, s); err != nil {
		return err
	}
	server.ServeCodec(jsonrpc.NewServerCodec(&conversation{in, out, s.end}))
	return nil
}

// List is publishing.ListMethod.
func (s *Service) List(url string, all *[]workloads.Object) (err error) {
	*all, err = s.buckets.List(s.context(), url)
	return err
}

// Copy is publishing.CopyMethod.
func (s *Service) Copy(c publishing.Copy, _ *publishing.Done) error {
	return s.buckets.Copy(s.context(), c.Object, c.To)
}

// A conversation is the input and the output of a service.
type conversation struct {
	in  io.Reader
	out io.Writer
	end func() // is called when the input ends
}

// Read implements io.Reader.
func (c *conversation) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if err != nil {
		c.end()
	}
	return n, err
}

// Write implements io.Writer.
func (c *conversation) Write(p []byte) (int, error) { return c.out.Write(p) }

// Close implements io.Closer.
func (c *conversation) Close() error { return nil }
