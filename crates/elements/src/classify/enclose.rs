// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boxes around patterns: what a list of rules has in common with addresses, ports and protocols, for [`tables::rules`].
//!
//! [`enclose`] returns boxes that hold all packets for which a pattern holds, if they have an IPv4 header. Those in a box that says so
//! must be asked about: it is larger than the pattern. Tests on anything but the fields of [`Key`](tables::rules::Key) make boxes
//! larger, and so does what would take too many boxes.

use tables::rules::{HAS_PORT, LATER_FRAGMENT, PROTOCOL, Ports, Rule, Ternary};

use super::program::{Base, Expr, Test};

/// IPv4 addresses are two words.
pub(super) type Box4 = Rule<2>;

/// Bytes of the IPv4 header that is there whenever boxes are asked.
pub(super) const HEADER_LEN: usize = 20;
/// A pattern that would take more boxes gets one around all of them.
const BOXES_MAX: usize = 512;

/// Parts of a pattern that are looked at, those of conditions twice; what is left then gets one box around all of it.
const STEPS_MAX: usize = 20_000;

/// The boxes around the packets for which a pattern holds.
pub(super) fn enclose(pattern: &Expr) -> Vec<Box4> {
    around(pattern, true, &mut { STEPS_MAX })
}

/// The boxes around the packets for which `expr` has this value, found in so many steps at most.
fn around(expr: &Expr, value: bool, steps: &mut usize) -> Vec<Box4> {
    let Some(left) = steps.checked_sub(1) else { return vec![unknown()] };
    *steps = left;
    match expr {
        Expr::Const(constant) => Vec::from_iter((*constant == value).then(Rule::any)),
        Expr::Test(test) => around_test(test, value),
        Expr::Not(inner) => around(inner, !value, steps),
        Expr::All(parts) if value => all(parts.iter().map(|part| around(part, true, steps))),
        Expr::Any(parts) if !value => all(parts.iter().map(|part| around(part, false, steps))),
        Expr::All(parts) | Expr::Any(parts) => any(parts.iter().map(|part| around(part, value, steps))),
        Expr::If(parts) => {
            let [condition, then, otherwise] = &**parts;
            let mut way =
                |held, part| all([around(condition, held, steps), around(part, value, steps)].into_iter());
            any([way(true, then), way(false, otherwise)].into_iter())
        }
    }
}

/// The whole space, of which nothing is known.
pub(super) fn unknown() -> Box4 {
    Rule { asks: true, ..Rule::any() }
}

/// Boxes around what lies in one of each.
fn all(parts: impl Iterator<Item = Vec<Box4>>) -> Vec<Box4> {
    parts.fold(vec![Rule::any()], |boxes, part| {
        if boxes.len() * part.len() > BOXES_MAX {
            // The part is left out, so not everything in the others holds.
            return boxes.into_iter().map(|one| Rule { asks: true, ..one }).collect();
        }
        boxes.iter().flat_map(|one| part.iter().filter_map(|other| intersection(one, other))).collect()
    })
}

/// Boxes around what lies in one of all.
fn any(parts: impl Iterator<Item = Vec<Box4>>) -> Vec<Box4> {
    let boxes: Vec<Box4> = parts.flatten().take(BOXES_MAX + 1).collect();
    if boxes.len() > BOXES_MAX { vec![unknown()] } else { boxes }
}

/// What lies in both; `None` if nothing does.
fn intersection(one: &Box4, other: &Box4) -> Option<Box4> {
    let mut both = *one;
    both.asks |= other.asks;
    for (word, more) in both.words.iter_mut().zip(other.words) {
        if (word.value ^ more.value) & word.mask & more.mask != 0 {
            return None;
        }
        *word =
            Ternary { value: word.value & word.mask | more.value & more.mask, mask: word.mask | more.mask };
    }
    for (ports, more) in both.ports.iter_mut().zip(other.ports) {
        *ports = Ports { low: ports.low.max(more.low), high: ports.high.min(more.high) };
    }
    let (kind, more) = (both.kind, other.kind);
    if (kind.value ^ more.value) & kind.mask & more.mask != 0 || both.is_empty() {
        return None;
    }
    both.kind =
        Ternary { value: kind.value & kind.mask | more.value & more.mask, mask: kind.mask | more.mask };
    Some(both)
}

/// What a test looks at.
enum Field {
    /// One of the two addresses.
    Address(usize),
    /// One of the two ports, so many bits from the right of the first word.
    Port(usize, u32),
    Protocol,
    /// Whether the packet is a first fragment.
    Offset,
    /// The header, which is there.
    Header,
    Other,
}

fn field(test: &Test) -> Field {
    let within = |field: u32| test.mask & !field == 0;
    match (test.base, test.offset) {
        (Base::Network, 12) => Field::Address(0),
        (Base::Network, 16) => Field::Address(1),
        (Base::Network, 8) if within(0x00ff_0000) => Field::Protocol,
        (Base::Network, 4) if test.mask == 0x1fff && test.low == 0 && test.high == 0 => Field::Offset,
        (Base::Network, offset) if usize::from(offset) + 4 <= HEADER_LEN => Field::Header,
        (Base::Transport, 0) if within(0xffff_0000) => Field::Port(0, 16),
        (Base::Transport, 0) if within(0x0000_ffff) => Field::Port(1, 0),
        _ => Field::Other,
    }
}

fn around_test(test: &Test, value: bool) -> Vec<Box4> {
    let (low, high) = (test.low, test.high.min(test.mask));
    if low > high {
        // The masked word is never so large.
        return Vec::from_iter((!value).then(Rule::any));
    }
    let is_exact = low == high;
    // It holds for every packet that has the bytes.
    let is_always = low == 0 && high == test.mask;
    match field(test) {
        Field::Address(_) | Field::Protocol | Field::Header if is_always => {
            Vec::from_iter(value.then(Rule::any))
        }
        Field::Address(n) if is_exact && value => {
            let mut one = Rule::any();
            one.words[n] = Ternary { value: low, mask: test.mask };
            vec![one]
        }
        Field::Protocol if is_exact && value => {
            vec![of_kind((test.mask >> 16) as u16 & PROTOCOL, (low >> 16) as u16)]
        }
        Field::Offset => vec![of_kind(LATER_FRAGMENT, if value { 0 } else { LATER_FRAGMENT })],
        Field::Port(n, shift) => {
            around_port(n, (test.mask >> shift) as u16, [low, high].map(|w| (w >> shift) as u16), value)
        }
        _ => vec![unknown()],
    }
}

/// The packets whose kind has this value under a mask.
fn of_kind(mask: u16, value: u16) -> Box4 {
    Rule { kind: Ternary { value, mask }, ..Rule::any() }
}

/// Boxes for ports of which the bits in `mask` lie between two bounds, or for packets without such a port.
fn around_port(n: usize, mask: u16, [low, high]: [u16; 2], value: bool) -> Vec<Box4> {
    let has = HAS_PORT[n];
    let with = |low: u16, high: u16, asks: bool| {
        let mut one = of_kind(has, has);
        one.ports[n] = Ports { low, high };
        one.asks = asks;
        one
    };
    let without = of_kind(has, 0);
    if mask & 0xff == 0 {
        // It needs one byte only, and may hold where there is no whole port.
        return vec![unknown()];
    }
    // The bits below a mask of leading ones may be anything.
    if mask.leading_ones() != mask.count_ones() || (low | high) & !mask != 0 {
        let whole = with(0, u16::MAX, true);
        return if value { vec![whole] } else { vec![without, whole] };
    }
    let (low, high) = (low, high | !mask);
    if value {
        return vec![with(low, high, false)];
    }
    let below = low.checked_sub(1).map(|last| with(0, last, false));
    let above = high.checked_add(1).map(|first| with(first, u16::MAX, false));
    [Some(without), below, above].into_iter().flatten().collect()
}
