package phpcodec

// sums is a Fenwick tree: a list of numbers in which changing one number and summing up the numbers
// before it both take few steps. With elements and numbers counted from 1, element i is the sum of
// the numbers i-(i&-i)+1 to i.
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
