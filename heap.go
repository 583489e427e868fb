package padlock

// These methods keep the heap of holds in order.

func (k *renewer) up(i int) int {
	for i > 0 {
		parent := (i - 1) / 2
		if k.heap[parent].wakeAt <= k.heap[i].wakeAt {
			break
		}
		k.swap(i, parent)
		i = parent
	}
	return i
}

func (k *renewer) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(k.heap); child++ {
			if k.heap[child].wakeAt < k.heap[least].wakeAt {
				least = child
			}
		}
		if least == i {
			return
		}
		k.swap(i, least)
		i = least
	}
}

func (k *renewer) swap(i, j int) {
	k.heap[i], k.heap[j] = k.heap[j], k.heap[i]
	k.heap[i].index, k.heap[j].index = int32(i), int32(j)
}
