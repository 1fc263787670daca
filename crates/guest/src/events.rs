//! What `bpf/meter.bpf.c` records, decoded. The layouts are those of `bpf/meter.h`.

/// A rectangle in pixels; `x2` and `y2` lie outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rect {
    /// Left edge.
    pub x1: i32,
    /// Top edge.
    pub y1: i32,
    /// Right edge.
    pub x2: i32,
    /// Bottom edge.
    pub y2: i32,
}

impl Rect {
    /// Number of pixels.
    pub fn area(self) -> i64 {
        i64::from((self.x2 - self.x1).max(0)) * i64::from((self.y2 - self.y1).max(0))
    }

    /// The part that both have.
    pub fn overlap(self, other: Self) -> Self {
        Self {
            x1: self.x1.max(other.x1),
            y1: self.y1.max(other.y1),
            x2: self.x2.min(other.x2),
            y2: self.y2.min(other.y2),
        }
    }

    /// Whether all of `other` lies inside.
    pub fn contains(self, other: Self) -> bool {
        self.overlap(other) == other
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// The typist's keyboard reported a key press.
    Key(u32),
    /// The screen changed in these rectangles; none means all of it.
    Update(Vec<Rect>),
    /// A page was asked for.
    Request,
}

/// What happened, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// What.
    pub what: Happening,
}

const KEY: u32 = 1;
const UPDATE: u32 = 2;
const REQUEST: u32 = 3;
const HEADER: usize = 16;
const CLIP: usize = 8;

impl Record {
    /// Decodes a `struct meter_event`, or a `struct meter_update` with its clips.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let at_ns = u64_at(bytes, 0)?;
        let kind = u32_at(bytes, 8)?;
        let code = u32_at(bytes, 12)?;
        let what = match kind {
            KEY => Happening::Key(code),
            REQUEST => Happening::Request,
            UPDATE => {
                let clips = bytes.get(HEADER..HEADER + CLIP * code as usize)?;
                Happening::Update(clips.chunks_exact(CLIP).map(rect).collect())
            }
            _ => return None,
        };
        Some(Self { at_ns, what })
    }
}

fn rect(clip: &[u8]) -> Rect {
    let edge = |n: usize| i32::from(u16::from_ne_bytes([clip[2 * n], clip[2 * n + 1]]));
    Rect { x1: edge(0), y1: edge(1), x2: edge(2), y2: edge(3) }
}

/// Reads a number of the BPF program's.
pub fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..offset + 8)?.try_into().ok().map(u64::from_ne_bytes)
}

/// Reads a number of the BPF program's.
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..offset + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

/// Reads a process name of the BPF program's.
pub fn comm_at(bytes: &[u8], offset: usize) -> String {
    let name = bytes.get(offset..offset + 16).unwrap_or_default();
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(kind: u32, code: u32, clips: &[[u16; 4]]) -> Vec<u8> {
        let mut bytes = 7_u64.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(code.to_ne_bytes());
        bytes.extend(clips.iter().flatten().flat_map(|edge| edge.to_ne_bytes()));
        bytes
    }

    #[test]
    fn decodes_what_the_bpf_program_writes() {
        assert_eq!(Record::decode(&raw(KEY, 30, &[])), Some(Record { at_ns: 7, what: Happening::Key(30) }));
        let update = Record::decode(&raw(UPDATE, 2, &[[1, 2, 3, 4], [5, 6, 7, 8]]));
        let rects = vec![Rect { x1: 1, y1: 2, x2: 3, y2: 4 }, Rect { x1: 5, y1: 6, x2: 7, y2: 8 }];
        assert_eq!(update, Some(Record { at_ns: 7, what: Happening::Update(rects) }));
        let request = Record::decode(&raw(REQUEST, 80, &[]));
        assert_eq!(request, Some(Record { at_ns: 7, what: Happening::Request }));
        assert_eq!(Record::decode(&raw(UPDATE, 2, &[[1, 2, 3, 4]])), None, "fewer clips than it says");
        assert_eq!(Record::decode(&raw(9, 0, &[])), None, "unknown kind");
    }
}
