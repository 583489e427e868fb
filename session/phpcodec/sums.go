package phpcodec

// sums is a Fenwick tree. It represents a list of numbers. It takes only a few steps to change one
// number, or to add up the numbers before an index. If we count from 1, element i of the slice is
// the sum of i&-i numbers: number i and the numbers just before it.
type sums []int

// push appends n.
func (s sums) push(n int) sums {
	i := len(s) + 1
	return append(s, n+s.sumBefore(i-1)-s.sumBefore(i-i&-i))
}

// add adds n to the number at index i.
func (s sums) add(i, n int) {
	for i++; i <= len(s); i += i & -i {
		s[i-1] += n
	}
}

// sumBefore returns the sum of the first i numbers.
func (s sums) sumBefore(i int) (sum int) {
	for ; i > 0; i -= i & -i {
		sum += s[i-1]
	}
	return sum
}
