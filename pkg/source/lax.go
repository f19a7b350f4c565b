package source

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/etcdmember/kubectl-etcdmember/pkg/etcd"
)

// lax is a field that may hold anything: what is not a T is kept as text and told of, and is otherwise absent.
type lax[T any] struct {
	Value T
	OK    bool
	Bad   string
}

// UnmarshalJSON never fails, so that one bad field does not hide the others.
func (l *lax[T]) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	if err := json.Unmarshal(b, &l.Value); err != nil {
		var zero T
		l.Value, l.Bad = zero, string(b)
		return nil
	}
	l.OK = true
	return nil
}

// etcdID is an ID of etcd's: lower-case hexadecimal without padding. A JSON number is decimal, as etcd's own JSON has it;
// a string is what etcd.ParseID reads.
type etcdID string

func (id *etcdID) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '"' {
		n, err := strconv.ParseUint(string(b), 10, 64)
		if err != nil {
			return fmt.Errorf("%s is not an etcd ID", b)
		}
		*id = etcdID(etcd.FormatID(n))
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	n, err := etcd.ParseID(s)
	if err != nil {
		return err
	}
	*id = etcdID(n.String())
	return nil
}

var hugeExponent = regexp.MustCompile(`[eE][+-]?0*[0-9]{3}`)

// size is a number of bytes, from a quantity or from a number.
type size int64

func (v *size) UnmarshalJSON(b []byte) error {
	// A quantity with a huge exponent is valid, and comparing it takes for ever.
	if hugeExponent.Match(b) {
		return fmt.Errorf("%.80s is not a size", b)
	}
	var q resource.Quantity
	if err := q.UnmarshalJSON(b); err != nil {
		return err
	}
	if q.Sign() < 0 || q.CmpInt64(math.MaxInt64) >= 0 {
		return fmt.Errorf("%s is not a size", q.String())
	}
	*v = size(q.Value())
	return nil
}

// number is a whole number that is not negative, also from a string, as some JSON writers keep 64-bit numbers.
type number int64

func (v *number) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseInt(strings.Trim(string(b), `"`), 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("%s is not a whole number", b)
	}
	*v = number(n)
	return nil
}

// instant is a time in RFC 3339, with or without a fraction.
type instant time.Time

func (v *instant) UnmarshalJSON(b []byte) error {
	var t time.Time
	if err := json.Unmarshal(b, &t); err != nil {
		return err
	}
	*v = instant(t)
	return nil
}
