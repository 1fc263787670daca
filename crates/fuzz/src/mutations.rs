//! Inputs made of kept ones, the same at each run: by bytes and words put in, parts taken out, repeated, or from another input.

/// Changes that one mutation makes at most.
const CHANGES_MAX: usize = 6;
/// Bytes of a mutation at most.
const LENGTH_MAX: usize = 8 << 10;
/// Bytes that break parsers: ends, separators, signs, and what is no UTF-8.
const ODD_BYTES: &[u8] = b"\0\n\r\t \"'\\/.,:;=-+_[]{}()<>#@%09afAFxX\x1b\x7f\x80\xc0\xff";
/// Words that break parsers of numbers, addresses and paths.
const ODD_WORDS: [&str; 16] = [
    "18446744073709551615",
    "18446744073709551616",
    "4294967295",
    "4294967296",
    "2147483648",
    "-2147483649",
    "-1",
    "0",
    "00",
    "0-4294967294",
    "1e999",
    "nan",
    "::ffff:127.0.0.1",
    "[::]",
    "\u{85}\u{202e}",
    "..",
];

/// Makes them.
pub(crate) struct Mutations {
    kept: Vec<Vec<u8>>,
    random: u64,
}

impl Mutations {
    pub(crate) fn of(kept: Vec<Vec<u8>>) -> Self {
        Self { kept, random: 0x9e37_79b9_7f4a_7c15 }
    }

    pub(crate) fn make(&mut self) -> Vec<u8> {
        let mut input = self.any().to_vec();
        for _ in 0..=self.below(CHANGES_MAX) {
            self.change(&mut input);
            input.truncate(LENGTH_MAX);
        }
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.below(input.len() + 1);
        let end = at + self.below(input.len() - at + 1);
        match self.below(8) {
            0 if at < input.len() => input[at] ^= 1 << self.below(8),
            1 if at < input.len() => input[at] = self.odd_byte(),
            2 => input.insert(at, self.odd_byte()),
            3 => {
                let word = ODD_WORDS[self.below(ODD_WORDS.len())];
                input.splice(at..at, word.bytes());
            }
            4 => drop(input.drain(at..end)),
            5 => input.truncate(at),
            6 => {
                let part = input[at..end].repeat(1 + self.below(4));
                input.splice(at..at, part);
            }
            _ => {
                let other = self.any().to_vec();
                let start = self.below(other.len() + 1);
                input.splice(at..end, other[start..].iter().copied());
            }
        }
    }

    fn any(&mut self) -> &[u8] {
        let at = self.below(self.kept.len().max(1));
        self.kept.get(at).map_or(&[], Vec::as_slice)
    }

    fn odd_byte(&mut self) -> u8 {
        ODD_BYTES[self.below(ODD_BYTES.len())]
    }

    /// Xorshift (Marsaglia 2003), which is enough here.
    fn below(&mut self, end: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random >> 33).unwrap_or(0) % end
    }
}
