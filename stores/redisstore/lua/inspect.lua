-- Returns the state of a name and changes nothing.
return { 'S', int(ms), redis.call('ZCARD', Q), holds(), int(note.fence) }
