//! Just enough of a BTF reader to look at function prototypes (Documentation/bpf/btf.rst). libbpf's own is
//! not used because it gives no safe way to a prototype's parameter names.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::CStr,
    fmt,
};

const MAGIC: u16 = 0xeb9f;
const HEADER_LEN: usize = 24;
const TYPE_LEN: usize = 12;

const KIND_INT: u32 = 1;
const KIND_ARRAY: u32 = 3;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_ENUM: u32 = 6;
const KIND_FUNC: u32 = 12;
const KIND_FUNC_PROTO: u32 = 13;
const KIND_VAR: u32 = 14;
const KIND_DATASEC: u32 = 15;
const KIND_DECL_TAG: u32 = 17;
const KIND_ENUM64: u32 = 19;
const KIND_MAX: u32 = 19;

/// BTF that does not parse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BtfError {
    /// It does not begin as BTF does, or has the other byte order.
    Magic,
    /// It ends too early.
    Short,
    /// It has a kind of type that is not known here, so the rest cannot be found.
    Kind(u32),
}

impl fmt::Display for BtfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => f.write_str("it does not begin as BTF does"),
            Self::Short => f.write_str("it ends too early"),
            Self::Kind(kind) => write!(f, "it has types of unknown kind {kind}"),
        }
    }
}

/// Names of the functions that `selects`, sorted.
///
/// # Errors
/// When `data` is no BTF of this machine's byte order.
pub fn functions(data: &[u8], selects: impl Fn(&str) -> bool) -> Result<Vec<String>, BtfError> {
    let found = Sections::new(data)?.functions(selects)?;
    let mut names: Vec<String> = found.iter().map(|(name, _)| (*name).to_owned()).collect();
    names.sort();
    Ok(names)
}

/// Names of the functions that `selects` and that list a parameter called `parameter`, sorted.
///
/// # Errors
/// When `data` is no BTF of this machine's byte order.
pub fn functions_with_parameter(
    data: &[u8],
    selects: impl Fn(&str) -> bool,
    parameter: &str,
) -> Result<Vec<String>, BtfError> {
    let sections = Sections::new(data)?;
    let functions = sections.functions(selects)?;
    let prototypes = sections.prototypes(functions.iter().map(|(_, prototype)| *prototype).collect())?;
    let mut found = Vec::new();
    for (name, prototype) in functions {
        if let Some(offset) = prototypes.get(&prototype)
            && sections.has_parameter(*offset, parameter)?
        {
            found.push(name.to_owned());
        }
    }
    found.sort();
    Ok(found)
}

struct Sections<'a> {
    types: &'a [u8],
    strings: &'a [u8],
}

impl<'a> Sections<'a> {
    fn new(data: &'a [u8]) -> Result<Self, BtfError> {
        let magic = data.first_chunk::<2>().ok_or(BtfError::Short)?;
        if u16::from_ne_bytes(*magic) != MAGIC {
            return Err(BtfError::Magic);
        }
        let header_len = word(data, 4)? as usize;
        if header_len < HEADER_LEN {
            return Err(BtfError::Short);
        }
        let section = |field: usize| -> Result<&'a [u8], BtfError> {
            let start = header_len + word(data, field)? as usize;
            let len = word(data, field + 4)? as usize;
            data.get(start..start + len).ok_or(BtfError::Short)
        };
        Ok(Self { types: section(8)?, strings: section(16)? })
    }

    /// Calls `look` for each type, by id, offset and kind.
    fn each(&self, mut look: impl FnMut(u32, usize, u32) -> Result<(), BtfError>) -> Result<(), BtfError> {
        // Ids begin at 1.
        let (mut id, mut at) = (1, 0);
        while at < self.types.len() {
            let info = word(self.types, at + 4)?;
            let kind = info >> 24 & 0x1f;
            look(id, at, kind)?;
            at += TYPE_LEN + payload_len(kind, info & 0xffff)?;
            id += 1;
        }
        Ok(())
    }

    /// Selected functions, with the ids of their prototypes.
    fn functions(&self, selects: impl Fn(&str) -> bool) -> Result<Vec<(&'a str, u32)>, BtfError> {
        let mut functions = Vec::new();
        self.each(|_, at, kind| {
            if kind == KIND_FUNC {
                let name = self.string(word(self.types, at)?)?;
                if selects(name) {
                    functions.push((name, word(self.types, at + 8)?));
                }
            }
            Ok(())
        })?;
        Ok(functions)
    }

    /// Where those of the types `wanted` are that are prototypes.
    fn prototypes(&self, wanted: BTreeSet<u32>) -> Result<BTreeMap<u32, usize>, BtfError> {
        let mut found = BTreeMap::new();
        self.each(|id, at, kind| {
            if kind == KIND_FUNC_PROTO && wanted.contains(&id) {
                found.insert(id, at);
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn string(&self, offset: u32) -> Result<&'a str, BtfError> {
        let rest = self.strings.get(offset as usize..).ok_or(BtfError::Short)?;
        let name = CStr::from_bytes_until_nul(rest).map_err(|_| BtfError::Short)?;
        Ok(name.to_str().unwrap_or_default())
    }

    fn has_parameter(&self, prototype: usize, wanted: &str) -> Result<bool, BtfError> {
        let count = word(self.types, prototype + 4)? & 0xffff;
        for index in 0..count as usize {
            if self.string(word(self.types, prototype + TYPE_LEN + 8 * index)?)? == wanted {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn word(data: &[u8], at: usize) -> Result<u32, BtfError> {
    let bytes = data.get(at..at + 4).and_then(|bytes| bytes.first_chunk::<4>()).ok_or(BtfError::Short)?;
    Ok(u32::from_ne_bytes(*bytes))
}

/// Bytes that follow the common part of a type.
fn payload_len(kind: u32, count: u32) -> Result<usize, BtfError> {
    let count = count as usize;
    match kind {
        KIND_INT | KIND_VAR | KIND_DECL_TAG => Ok(4),
        KIND_ARRAY => Ok(12),
        KIND_STRUCT | KIND_UNION | KIND_DATASEC | KIND_ENUM64 => Ok(12 * count),
        KIND_ENUM | KIND_FUNC_PROTO => Ok(8 * count),
        0 => Err(BtfError::Kind(0)),
        1..=KIND_MAX => Ok(0),
        other => Err(BtfError::Kind(other)),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// BTF of `void function(int parameter)`.
    pub fn one_function(function: &str, parameter: &str) -> Vec<u8> {
        let strings = format!("\0int\0{function}\0{parameter}\0").into_bytes();
        let function_off = 5;
        let parameter_off = function_off + function.len() as u32 + 1;
        let types: [u32; 12] = [
            1,
            KIND_INT << 24,
            4,
            32, // 1: int
            0,
            KIND_FUNC_PROTO << 24 | 1,
            0,
            parameter_off,
            1, // 2: prototype
            function_off,
            KIND_FUNC << 24,
            2, // 3: function
        ];
        let types_len = 4 * types.len() as u32;
        let mut data = Vec::new();
        data.extend(MAGIC.to_ne_bytes());
        data.extend([1, 0]);
        for field in [24, 0, types_len, types_len, strings.len() as u32].into_iter().chain(types) {
            data.extend(u32::to_ne_bytes(field));
        }
        data.extend(strings);
        data
    }

    #[test]
    fn finds_the_parameter_by_name() {
        let data = one_function("scx_bpf_now", "aux");
        assert_eq!(functions_with_parameter(&data, |_| true, "aux"), Ok(vec!["scx_bpf_now".into()]));
        assert_eq!(functions_with_parameter(&data, |_| true, "cpu"), Ok(vec![]));
        assert_eq!(functions_with_parameter(&data, |name| name == "other", "aux"), Ok(vec![]));
    }

    #[test]
    fn cut_off_anywhere_it_is_an_error_and_no_panic() {
        let data = one_function("scx_bpf_now", "aux");
        for len in 0..data.len() {
            assert!(functions_with_parameter(&data[..len], |_| true, "aux").is_err(), "{len}");
        }
    }

    #[test]
    fn reads_the_running_kernels() {
        // Not every kernel that builds this has BTF.
        if let Ok(data) = std::fs::read("/sys/kernel/btf/vmlinux") {
            let found = functions_with_parameter(&data, |name| name == "vfs_read", "file");
            assert_eq!(found, Ok(vec!["vfs_read".into()]));
        }
    }
}
