// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own type information, as far as a function's number is to be found there
//! (`Documentation/bpf/btf.rst`).

const PATH: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
const FUNC: u32 = 12;

/// The number of a function of the running kernel; `None` where there is no such function or no type information.
pub(super) fn function(name: &str) -> Option<u32> {
    find(&std::fs::read(PATH).ok()?, name)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

fn find(btf: &[u8], name: &str) -> Option<u32> {
    // struct btf_header: magic, version, flags, then the lengths and places of types and strings behind it.
    if btf.first_chunk().copied().map(u16::from_ne_bytes) != Some(MAGIC) {
        return None;
    }
    let field = |at| word(btf, at).map(|value| value as usize);
    let header = field(4)?;
    let (types_at, types_len, strings_at, strings_len) = (field(8)?, field(12)?, field(16)?, field(20)?);
    let types = btf.get(header + types_at..)?.get(..types_len)?;
    let strings = btf.get(header + strings_at..)?.get(..strings_len)?;
    let named = |at: u32| strings.get(at as usize..)?.strip_prefix(name.as_bytes())?.first().copied();
    let (mut at, mut number) = (0, 1);
    while at < types.len() {
        let (text, info) = (word(types, at)?, word(types, at + 4)?);
        let kind = info >> 24 & 0x1f;
        if kind == FUNC && named(text) == Some(0) {
            return Some(number);
        }
        at += 12 + tail(kind, (info & 0xffff) as usize)?;
        number += 1;
    }
    None
}

/// Bytes behind a type's three words.
fn tail(kind: u32, members: usize) -> Option<usize> {
    Some(match kind {
        // Pointer, forward, typedef, the qualifiers, function, float, type tag.
        2 | 7..=12 | 16 | 18 => 0,
        // Integer, variable, declaration tag.
        1 | 14 | 17 => 4,
        3 => 12,
        // Structure, union, data section, wide enumeration.
        4 | 5 | 15 | 19 => members * 12,
        // Enumeration, prototype.
        6 | 13 => members * 8,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three types: an integer, a structure of one member, and the function.
    fn sample() -> Vec<u8> {
        let strings = b"\0int\0wanted\0";
        let mut types = Vec::new();
        for word in [1, 1 << 24, 4, 32, 1, 4 << 24 | 1, 4, 1, 1, 0, 5, FUNC << 24, 2] {
            types.extend(u32::to_ne_bytes(word));
        }
        let mut btf = Vec::from(MAGIC.to_ne_bytes());
        btf.extend([1, 0]);
        for word in [24, 0, types.len() as u32, types.len() as u32, strings.len() as u32] {
            btf.extend(word.to_ne_bytes());
        }
        [btf, types, strings.to_vec()].concat()
    }

    #[test]
    fn a_function_is_found_by_name() {
        let btf = sample();
        assert_eq!(find(&btf, "wanted"), Some(3));
        for other in ["want", "wanted1", "int", ""] {
            assert_eq!(find(&btf, other), None, "{other}");
        }
        for cut in 0..btf.len() {
            let _ = find(&btf[..cut], "wanted");
        }
        assert_eq!(find(&btf[1..], "wanted"), None);
    }
}
