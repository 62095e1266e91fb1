package standin

import (
	"encoding/binary"
	"math"
)

// A graph in ONNX's file format, which is protocol buffers: the few messages that the stand-in needs, by their field numbers
// in the published onnx.proto3.

// Element types of tensors.
const (
	float32Type = 1
	int32Type   = 6
	int64Type   = 7
)

// message is an encoded protocol buffer message under way.
type message []byte

func (m message) varint(field int, v int64) message {
	m = binary.AppendUvarint(m, uint64(field)<<3)
	return binary.AppendUvarint(m, uint64(v))
}

func (m message) bytes(field int, b []byte) message {
	m = binary.AppendUvarint(m, uint64(field)<<3|2)
	m = binary.AppendUvarint(m, uint64(len(b)))
	return append(m, b...)
}

func (m message) float(field int, v float32) message {
	m = binary.AppendUvarint(m, uint64(field)<<3|5)
	return binary.LittleEndian.AppendUint32(m, math.Float32bits(v))
}

func (m message) text(field int, s string) message { return m.bytes(field, []byte(s)) }

// attribute is one setting of a node.
type attribute struct {
	name  string
	value any // int64, string, []int64, float32 or tensor
}

func (a attribute) encode() message {
	const name, f, i, s, t, ints, kind = 1, 2, 3, 4, 5, 8, 20
	m := message{}.text(name, a.name)
	switch v := a.value.(type) {
	case float32:
		return m.float(f, v).varint(kind, 1)
	case int64:
		return m.varint(i, v).varint(kind, 2)
	case string:
		return m.text(s, v).varint(kind, 3)
	case tensor:
		return m.bytes(t, v.encode()).varint(kind, 4)
	case []int64:
		for _, n := range v {
			m = m.varint(ints, n)
		}
		return m.varint(kind, 7)
	}
	panic("an attribute of no known type")
}

// tensor is a constant.
type tensor struct {
	name string
	dims []int64
	kind int64
	raw  []byte
}

func floats(name string, dims []int64, v ...float32) tensor {
	t := tensor{name: name, dims: dims, kind: float32Type}
	for _, x := range v {
		t.raw = binary.LittleEndian.AppendUint32(t.raw, math.Float32bits(x))
	}
	return t
}

func longs(name string, dims []int64, v ...int64) tensor {
	t := tensor{name: name, dims: dims, kind: int64Type}
	for _, x := range v {
		t.raw = binary.LittleEndian.AppendUint64(t.raw, uint64(x))
	}
	return t
}

func (t tensor) encode() message {
	const dims, kind, name, raw = 1, 2, 8, 9
	var m message
	for _, d := range t.dims {
		m = m.varint(dims, d)
	}
	return m.varint(kind, t.kind).text(name, t.name).bytes(raw, t.raw)
}

// port is an input or output of the graph. A negative size is one that a caller chooses, by that name.
type port struct {
	name string
	kind int64
	dims []any // int64, or the string that names it
}

func (p port) encode() message {
	var shape message
	for _, d := range p.dims {
		if n, ok := d.(int); ok {
			shape = shape.bytes(1, message{}.varint(1, int64(n)))
		} else {
			shape = shape.bytes(1, message{}.text(2, d.(string)))
		}
	}
	return message{}.text(1, p.name).bytes(2, message{}.bytes(1, message{}.varint(1, p.kind).bytes(2, shape)))
}

// graph is nodes in the order of their work.
type graph struct {
	nodes, constants, inputs, outputs message
	count                             int
}

// op adds a node and returns its output's name.
func (g *graph) op(kind string, inputs []string, attributes ...attribute) string {
	g.count++
	out := kind + "_" + string(rune('a'+g.count/26/26%26)) + string(rune('a'+g.count/26%26)) + string(rune('a'+g.count%26))
	g.named(out, kind, inputs, attributes...)
	return out
}

func (g *graph) named(out, kind string, inputs []string, attributes ...attribute) {
	var n message
	for _, in := range inputs {
		n = n.text(1, in)
	}
	n = n.text(2, out).text(3, out+"_node").text(4, kind)
	for _, a := range attributes {
		n = n.bytes(5, a.encode())
	}
	g.nodes = append(g.nodes, message{}.bytes(1, n)...)
}

// constant adds a constant and returns its name.
func (g *graph) constant(t tensor) string {
	g.constants = append(g.constants, message{}.bytes(5, t.encode())...)
	return t.name
}

func (g *graph) input(p port)  { g.inputs = append(g.inputs, message{}.bytes(11, p.encode())...) }
func (g *graph) output(p port) { g.outputs = append(g.outputs, message{}.bytes(12, p.encode())...) }

// model is the file.
func (g *graph) model(name string) []byte {
	const ir, opset = 8, 17
	body := append(message{}, g.nodes...)
	body = body.text(2, name)
	body = append(append(append(body, g.constants...), g.inputs...), g.outputs...)
	m := message{}.varint(1, ir).text(2, "loadline").bytes(7, body)
	return m.bytes(8, message{}.varint(2, opset))
}
