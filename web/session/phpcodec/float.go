package phpcodec

import (
	"math"
	"strconv"
	"strings"
)

// appendFloat writes a number as PHP does with serialize_precision -1. It writes the fewest digits
// that identify the number. It uses an exponent if the absolute value is at least 1.0E+17, or
// below 0.0001 but not 0.
func appendFloat(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, "NAN"...)
	case math.IsInf(f, 1):
		return append(b, "INF"...)
	case math.IsInf(f, -1):
		return append(b, "-INF"...)
	}
	text := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, exponent, _ := strings.Cut(text, "e")
	exp, _ := strconv.Atoi(exponent)
	if exp > -5 && exp < 17 {
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	b = append(b, mantissa...)
	if !strings.Contains(mantissa, ".") {
		b = append(b, ".0"...)
	}
	b = append(b, 'E')
	if exp >= 0 {
		b = append(b, '+')
	}
	return strconv.AppendInt(b, int64(exp), 10)
}

// parseFloat accepts only texts that PHP writes. strconv.ParseFloat would accept more.
func parseFloat(word string) (float64, bool) {
	switch word {
	case "NAN":
		return math.NaN(), true
	case "INF":
		return math.Inf(1), true
	case "-INF":
		return math.Inf(-1), true
	}
	if word == "" || strings.Trim(word, "0123456789+-.eE") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(word, 64)
	return f, err == nil
}
