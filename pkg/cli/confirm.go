package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/etcdmember/kubectl-etcdmember/pkg/printer"
)

// confirm makes sure that a person means it: on a terminal the word has to be typed, elsewhere yes has to be true,
// because nobody is there to ask. What is about to happen has been printed before.
func confirm(ctx context.Context, f *Factory, yes bool, what, word string) error {
	if yes {
		return nil
	}
	if in, ok := f.In.(*os.File); !ok || !term.IsTerminal(int(in.Fd())) {
		return fmt.Errorf("can't ask whether to %s, because standard input is no terminal; say it with --yes", what)
	}
	fmt.Fprintf(f.ErrOut, "To %s, type %s: ", what, printer.Sanitize(word))
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() {
		text, err := bufio.NewReader(f.In).ReadString('\n')
		read <- line{text, err}
	}()
	select {
	case <-ctx.Done(): // an interrupt does not end the read
		fmt.Fprintln(f.ErrOut)
		return ctx.Err()
	case l := <-read:
		if l.err != nil && l.err != io.EOF {
			return fmt.Errorf("can't read whether to %s: %w", what, l.err)
		}
		if strings.TrimSpace(l.text) != word {
			return refusef("not confirmed: nothing was changed")
		}
		return nil
	}
}
