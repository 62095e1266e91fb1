//go:build cgo

package kokoro

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	ort "github.com/yalue/onnxruntime_go"
)

// The library has one environment in a process, which stays.
var environment struct {
	sync.Mutex
	library string
}

// start loads the library, once.
func start(library string) error {
	environment.Lock()
	defer environment.Unlock()
	if library == "" {
		return errors.New("ONNX Runtime's shared library is not named: give the path of libonnxruntime.so.1, of 1.24 or later (make setup gets one)")
	}
	if environment.library == library {
		return nil
	}
	if environment.library != "" {
		return fmt.Errorf("ONNX Runtime is loaded from %s already: a process has one", environment.library)
	}
	ort.SetSharedLibraryPath(library)
	// Every run that is broken off would be an error in its log.
	if err := ort.InitializeEnvironment(ort.WithLogLevelFatal()); err != nil {
		return fmt.Errorf("load ONNX Runtime (1.24 or later; make setup gets one, --onnxruntime names another): %w", err)
	}
	environment.library = library
	return nil
}

// alive is the tensors and run options that exist now.
var alive atomic.Int64

// Tensors is how many tensors exist now, of all engines: 0 while nothing runs.
func Tensors() int { return int(alive.Load()) }

// load makes the sessions, and says how the model is called and what it runs on.
func load(ctx context.Context, c Config, path string) (sessions []session, sig signature, on string, err error) {
	plain, err := ort.NewSessionOptions()
	if err != nil {
		return nil, sig, "", err
	}
	defer plain.Destroy()
	if err := plain.SetGraphOptimizationLevel(ort.GraphOptimizationLevelDisableAll); err != nil { // it is only looked at
		return nil, sig, "", err
	}
	in, out, err := ort.GetInputOutputInfoWithOptions(path, plain)
	if err != nil {
		return nil, sig, "", fmt.Errorf("it is not a graph that ONNX Runtime %s reads: %w", ort.GetVersion(), err)
	}
	if sig, err = identify(ports(in), ports(out)); err != nil {
		return nil, sig, "", err
	}
	options, on, err := settings(c)
	if err != nil {
		return nil, sig, "", err
	}
	defer options.Destroy()
	inputs, outputs := []string{sig.tokens, sig.style, sig.speed}, []string{sig.sound}
	if sig.duration != "" {
		outputs = append(outputs, sig.duration)
	}
	for range c.Sessions {
		if err = ctx.Err(); err != nil {
			break
		}
		var s *ort.DynamicAdvancedSession
		if s, err = ort.NewDynamicAdvancedSession(path, inputs, outputs, options); err != nil {
			break
		}
		sessions = append(sessions, &graph{s: s, sig: sig})
	}
	if err != nil {
		for _, s := range sessions {
			s.close()
		}
		return nil, sig, "", err
	}
	return sessions, sig, on, nil
}

func ports(infos []ort.InputOutputInfo) []port {
	kinds := map[ort.TensorElementDataType]string{ort.TensorElementDataTypeFloat: "float32", ort.TensorElementDataTypeInt32: "int32",
		ort.TensorElementDataTypeInt64: "int64", ort.TensorElementDataTypeFloat16: "float16"}
	var out []port
	for _, i := range infos {
		kind := kinds[i.DataType]
		if kind == "" {
			kind = i.DataType.String()
		}
		dims := []int64(i.Dimensions)
		if len(dims) == 0 {
			dims = []int64{0}
		}
		out = append(out, port{i.Name, kind, dims})
	}
	return out
}

// settings is the options of sessions, and the device in words.
func settings(c Config) (_ *ort.SessionOptions, on string, err error) {
	o, err := ort.NewSessionOptions()
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if err != nil {
			o.Destroy()
		}
	}()
	threads := c.Threads
	if threads <= 0 {
		threads = max(1, runtime.GOMAXPROCS(0)/c.Sessions)
	}
	err = errors.Join(
		o.SetIntraOpNumThreads(threads),
		o.SetInterOpNumThreads(1),
		o.SetMemPattern(false),                                          // one would be kept for each length of text
		o.AddSessionConfigEntry("session.intra_op.allow_spinning", "0"), // idle threads would take the processor from the connections
		o.SetLogSeverityLevel(ort.LoggingLevelFatal),
	)
	if err != nil {
		return nil, "", err
	}
	on = fmt.Sprintf("cpu, %d threads each", threads)
	if c.Device == CPU {
		return o, on, nil
	}
	missing := cuda(o)
	switch {
	case missing == nil:
		return o, "cuda", nil
	case c.Device == CUDA:
		return nil, "", fmt.Errorf("the device is cuda, but ONNX Runtime cannot use it: %s; its CUDA provider (libonnxruntime_providers_cuda.so) belongs beside %s, and CUDA and cuDNN of its version must be installed",
			reason(missing), filepath.Base(c.Library))
	}
	return o, on + " (CUDA is not there: " + reason(missing) + ")", nil
}

// cuda adds the provider.
func cuda(o *ort.SessionOptions) error {
	p, err := ort.NewCUDAProviderOptions()
	if err != nil {
		return err
	}
	defer p.Destroy()
	// An exhaustive search for each new length takes longer than many runs; the default falls to a slow path.
	if err := p.Update(map[string]string{"cudnn_conv_algo_search": "HEURISTIC", "arena_extend_strategy": "kSameAsRequested"}); err != nil {
		return err
	}
	return o.AppendExecutionProviderCUDA(p)
}

// reason is what the library's error comes to, in one line, without its source files.
func reason(err error) string {
	s := strings.Join(strings.Fields(err.Error()), " ")
	for _, before := range []string{" with error: ", " FAIL : "} {
		if i := strings.LastIndex(s, before); i >= 0 {
			s = s[i+len(before):]
			break
		}
	}
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return s
}

// graph is one session.
type graph struct {
	s   *ort.DynamicAdvancedSession
	sig signature
}

func (g *graph) close() { _ = g.s.Destroy() } // it has nothing to fail

// run speaks. The tensors that it makes are gone when it returns.
func (g *graph) run(ctx context.Context, tokens []int64, style []float32, speed float64) (sound []float32, frames []int64, err error) {
	var made []ort.Value
	defer func() {
		for _, v := range made {
			if v != nil {
				err = errors.Join(err, v.Destroy())
				alive.Add(-1)
			}
		}
	}()
	tensor := func(v ort.Value, e error) {
		if e != nil {
			err = errors.Join(err, e)
			return
		}
		alive.Add(1)
		made = append(made, v)
	}
	tensor(value([]int64{1, int64(len(tokens))}, tokens))
	tensor(value([]int64{1, int64(len(style))}, style))
	if g.sig.wholeSpeed {
		tensor(value([]int64{1}, []int32{int32(speed)}))
	} else {
		tensor(value([]int64{1}, []float32{float32(speed)}))
	}
	if err != nil {
		return nil, nil, err
	}
	o, err := ort.NewRunOptions()
	if err != nil {
		return nil, nil, err
	}
	alive.Add(1)
	inputs, outputs := made, make([]ort.Value, 1, 2)
	if g.sig.duration != "" {
		outputs = append(outputs, nil)
	}
	ended := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = o.Terminate() // a run that cannot be ended ends by itself
	})
	err = g.s.RunWithOptions(inputs, outputs, o)
	if !unhook() {
		<-ended
	}
	err = errors.Join(err, o.Destroy())
	alive.Add(-1)
	for _, v := range outputs {
		if v != nil {
			tensor(v, nil)
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case err != nil:
		return nil, nil, err
	}
	t, ok := outputs[0].(*ort.Tensor[float32])
	if !ok {
		return nil, nil, fmt.Errorf("%s is no tensor of float32", g.sig.sound)
	}
	sound = t.GetData() // a copy of Go's
	if len(outputs) > 1 {
		if d, ok := outputs[1].(*ort.Tensor[int64]); ok {
			frames = d.GetData()
		}
	}
	return sound, frames, nil
}

func value[T ort.TensorData](dims []int64, data []T) (ort.Value, error) {
	return ort.NewTensor(ort.NewShape(dims...), data)
}
