package padlock

import "github.com/padlock-go/padlock/driver"

// A binary heap of locks by wakeAt, each knowing its place. It is written out
// because container/heap would cost an interface call per step.

// nextLook is when something is to be done about h.
func (h *hold) nextLook() driver.Instant {
	return min(driver.Instant(h.usable.Load()), h.renewAt)
}

func (k *keeper) push(h *hold) {
	h.wakeAt = h.nextLook()
	h.index = len(k.heap)
	k.heap = append(k.heap, h)
	k.up(h.index)
	k.arm()
}

// moved puts h where it belongs after its times changed.
func (k *keeper) moved(h *hold) {
	if h.index < 0 {
		return
	}
	h.wakeAt = h.nextLook()
	k.down(k.up(h.index))
	k.arm()
}

func (k *keeper) remove(h *hold) {
	i := h.index
	if i < 0 {
		return
	}
	h.index = -1
	last := len(k.heap) - 1
	moved := k.heap[last]
	k.heap[last] = nil
	k.heap = k.heap[:last]
	if i == last {
		return
	}
	k.heap[i] = moved
	moved.index = i
	k.down(k.up(i))
}

func (k *keeper) up(i int) int {
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

func (k *keeper) down(i int) {
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

func (k *keeper) swap(i, j int) {
	k.heap[i], k.heap[j] = k.heap[j], k.heap[i]
	k.heap[i].index, k.heap[j].index = i, j
}
