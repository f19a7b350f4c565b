package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

// Handler is what the manager does when asked.
type Handler interface {
	Status() Status
	Load(ctx context.Context, i Image) error
	Inject(ctx context.Context, f Fault) (Fault, error)
	Heal(ctx context.Context, id string) error
	VolumeOf(ctx context.Context, namespace, claim string) (Volume, error)
	Dial(ctx context.Context, address string) (net.Conn, error)
}

// Serve answers on the socket until it is closed.
func Serve(socket string, h Handler) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing a stale socket: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("opening the control socket: %w", err)
	}
	// Whoever may write to it may do to the cluster what root may.
	if err := os.Chmod(socket, 0o600); err != nil {
		return fmt.Errorf("protecting the control socket: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		answer(w, h.Status(), nil)
	})
	mux.HandleFunc("POST /images", func(w http.ResponseWriter, r *http.Request) {
		var i Image
		if read(w, r, &i) {
			answer(w, nil, h.Load(r.Context(), i))
		}
	})
	mux.HandleFunc("POST /faults", func(w http.ResponseWriter, r *http.Request) {
		var f Fault
		if read(w, r, &f) {
			// What was begun is carried through even if whoever asked for it has gone.
			f, err := h.Inject(context.WithoutCancel(r.Context()), f)
			answer(w, f, err)
		}
	})
	mux.HandleFunc("DELETE /faults/{id}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, nil, h.Heal(context.WithoutCancel(r.Context()), r.PathValue("id")))
	})
	mux.HandleFunc("GET /volumes/{namespace}/{claim}", func(w http.ResponseWriter, r *http.Request) {
		v, err := h.VolumeOf(r.Context(), r.PathValue("namespace"), r.PathValue("claim"))
		answer(w, v, err)
	})
	return http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			tunnel(w, r, h)
			return
		}
		mux.ServeHTTP(w, r)
	}))
}

func read(w http.ResponseWriter, r *http.Request, v any) bool {
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(v); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(failure{Error: "understanding the request: " + err.Error()})
		return false
	}
	return true
}

func answer(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		v = failure{Error: err.Error()}
	}
	if v != nil {
		_ = json.NewEncoder(w).Encode(v)
	}
}

// tunnel joins the request's connection to an address in the sandbox.
func tunnel(w http.ResponseWriter, r *http.Request, h Handler) {
	inside, err := h.Dial(r.Context(), r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		inside.Close()
		http.Error(w, "this connection can't be taken over", http.StatusInternalServerError)
		return
	}
	outside, buffer, err := hijacker.Hijack()
	if err != nil {
		inside.Close()
		return
	}
	if _, err := io.WriteString(outside, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		inside.Close()
		outside.Close()
		return
	}
	Join(&buffered{Conn: outside, reader: buffer.Reader}, inside)
}

// Join copies between two connections until both directions have ended.
func Join(a, b net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		copyHalf(a, b)
	}()
	copyHalf(b, a)
	<-done
	a.Close()
	b.Close()
}

// copyHalf copies one direction and passes its end on. When the copy breaks, so must the other direction.
func copyHalf(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if closer, ok := unwrap(to).(interface{ CloseWrite() error }); ok && err == nil {
		_ = closer.CloseWrite()
		return
	}
	to.Close()
	from.Close()
}

func unwrap(c net.Conn) net.Conn {
	if b, ok := c.(*buffered); ok {
		return b.Conn
	}
	return c
}
