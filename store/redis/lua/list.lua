-- Lists keys and contents of one moment.
-- KEYS: index. ARGV: prefix of records' keys, the least key, the greatest, how many (-1 is all).
local keys = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
local out = {}
for from = 1, #keys, 1000 do
  local names = {}
  for i = from, math.min(from + 999, #keys) do names[#names + 1] = ARGV[1] .. keys[i] end
  local contents = redis.call('MGET', unpack(names))
  for i = 1, #names do
    out[#out + 1] = keys[from + i - 1]
    out[#out + 1] = contents[i] or ''
  end
end
return out
