//go:build !cgo

package kokoro

import (
	"context"
	"errors"
)

// start says that this program cannot load the library.
func start(string) error {
	return errors.New("this program was built without cgo, which ONNX Runtime needs: build it with CGO_ENABLED=1 and a C compiler (gcc), or serve with another --engine")
}

// Tensors is how many tensors exist now: none.
func Tensors() int { return 0 }

func load(context.Context, Config, string) ([]session, signature, string, error) {
	return nil, signature{}, "", start("")
}
