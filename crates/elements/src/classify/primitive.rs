// SPDX-License-Identifier: MIT OR Apache-2.0
//! One primitive of the filter language (`src tcp port 80`), and the tests that it comes to.

use super::program::{Base, Expr, Test};
use super::vocabulary::*;

/// One test while it is read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Primitive {
    pub(super) kind: Kind,
    pub(super) side: Option<Side>,
    pub(super) proto: Option<u32>,
    pub(super) relation: Relation,
    pub(super) negated: bool,
    pub(super) value: Value,
    pub(super) mask: Option<Value>,
    /// The header named: `i` or `e`.
    pub(super) header: Option<char>,
}

impl Primitive {
    pub(super) fn set_proto(&mut self, proto: u32) -> Result<(), String> {
        match self.proto.replace(proto) {
            Some(old) if old != proto => Err("the transport protocol was given twice".into()),
            _ => Ok(()),
        }
    }

    /// Fills in what the test before and the value imply, and checks that all agrees.
    pub(super) fn complete(&mut self, before: &Primitive) -> Result<(), String> {
        let side = self.side;
        if self.kind == Kind::None {
            self.infer(before)?;
        }
        let header = self.header.unwrap_or(if self.value.kind == Kind::Ether { 'e' } else { 'i' });
        if header == 'e' && self.kind == Kind::Host {
            self.kind = Kind::Ether;
        }
        let error = |why: &str| Err(format!("'{}': {why}", self.kind.name()));
        if (header == 'e') != (self.kind == Kind::Ether) {
            return error(if header == 'e' { "belongs to IP, not to Ethernet" } else { "address missing" });
        }
        let value = self.value.kind;
        let plain = self.relation == Relation::Equal;
        match self.kind {
            Kind::Host | Kind::Net if value != self.kind => return error("address missing"),
            Kind::Ether if value != Kind::Ether => return error("address missing"),
            Kind::Host | Kind::Net | Kind::Ether if !plain => return error("this relation is not possible"),
            Kind::Frag | Kind::Unfrag | Kind::Ce if value != Kind::None || self.mask.is_some() => {
                return error("takes no value");
            }
            Kind::Proto => return self.complete_proto(),
            Kind::Port => {
                if ![Kind::Int, Kind::Port].contains(&value) {
                    return error("value missing");
                }
                let proto = *self.proto.get_or_insert(TCP_OR_UDP);
                if ![TCP, UDP, TCP_OR_UDP, DCCP].contains(&proto) {
                    return error("this protocol has no ports");
                }
                self.check_range(0xffff)?;
            }
            Kind::TcpOpt => {
                if ![Kind::Int, Kind::TcpOpt].contains(&value) {
                    return error("value missing");
                }
                if *self.proto.get_or_insert(TCP) != TCP {
                    return error("only TCP has these flags");
                }
                if !plain || self.negated || self.mask.is_some() {
                    return error("takes neither relation nor mask");
                }
                self.check_range(0xff)?;
            }
            Kind::Ect if value == Kind::None => {
                (self.kind, self.negated) = (field(None, 14, 2), true);
            }
            Kind::Ect => {
                self.kind = field(None, 14, 2);
                self.check_range(3)?;
            }
            Kind::Ce => (self.kind, self.value.number) = (field(None, 14, 2), 3),
            Kind::Field { bits, .. } => {
                if value != Kind::Int && value != self.kind {
                    return error("value missing");
                }
                self.check_range(u32::MAX >> (32 - bits))?;
            }
            _ => {}
        }
        if [Kind::Host, Kind::Net, Kind::Port, Kind::Ether].contains(&self.kind) {
            self.side.get_or_insert(Side::Either);
        } else if side.is_some() {
            return Err(format!("'{}' has neither source nor destination", self.kind.name()));
        }
        Ok(())
    }

    /// Finds the type from the value.
    pub(super) fn infer(&mut self, before: &Primitive) -> Result<(), String> {
        let mut kind = self.value.kind;
        if kind == Kind::Int {
            kind = before.kind;
            if !matches!(kind, Kind::Field { .. } | Kind::Proto | Kind::Port) {
                return Err(format!("what is {}? Name a header field or 'port'", self.value.number));
            }
            self.value.kind = kind;
        }
        match kind {
            Kind::None if self.proto.is_some() => kind = Kind::Proto,
            Kind::None => return Err("the test is incomplete".into()),
            Kind::Host | Kind::Net | Kind::Ether | Kind::TcpOpt => self.side = self.side.or(before.side),
            Kind::Port => {
                self.side = self.side.or(before.side);
                self.proto = self.proto.or(before.proto);
            }
            Kind::Field { proto, .. } => self.proto = self.proto.or(proto),
            _ => {}
        }
        self.kind = kind;
        Ok(())
    }

    pub(super) fn complete_proto(&mut self) -> Result<(), String> {
        let error = |why: &str| Err(format!("'proto': {why}"));
        if [Kind::Int, Kind::Proto].contains(&self.value.kind) {
            if self.proto.is_some_and(|p| p != self.value.number) {
                return error("given twice");
            }
        } else if self.value.kind == Kind::None
            && let Some(proto) = self.proto
        {
            self.value = Value { kind: Kind::Proto, number: proto, ..Value::default() };
        } else {
            return error("value missing");
        }
        if self.side.is_some() {
            return error("has neither source nor destination");
        }
        self.proto = None;
        if self.value.number > 0xff && self.value.kind == Kind::Proto {
            if self.relation != Relation::Equal || self.mask.is_some() {
                return error("this protocol takes neither relation nor mask");
            }
        } else {
            self.check_range(0xff)?;
        }
        // What a bare value after this inherits.
        if self.relation == Relation::Equal && !self.negated && self.mask.is_none() {
            self.proto = Some(self.value.number);
        }
        Ok(())
    }

    /// Checks that value and mask lie within the field.
    pub(super) fn check_range(&self, full: u32) -> Result<(), String> {
        let name = self.kind.name();
        if let Some(mask) = self.mask {
            if mask.kind != Kind::Int {
                return Err(format!("'{name}': bad mask"));
            }
            if mask.number & !full != 0 {
                return Err(format!("'{name}': mask out of range, at most {full:#x}"));
            }
        }
        if self.relation == Relation::Equal && self.value.number > full {
            return Err(format!("'{name}': value out of range, at most {full}"));
        }
        Ok(())
    }

    /// The test of `bits` bits of a word, `shift` from its right.
    pub(super) fn compare(&self, base: Base, offset: u32, shift: u32, full: u32) -> Expr {
        let mask = self.mask.map_or(full, |m| m.number & full);
        let value = self.value.number;
        let (low, high) = match self.relation {
            Relation::Equal => (value & mask, value & mask),
            Relation::Greater if value >= mask => return Expr::Const(false),
            Relation::Greater => (value + 1, mask),
            Relation::Less if value == 0 => return Expr::Const(false),
            Relation::Less => (0, (value - 1).min(mask)),
        };
        let test =
            Test { base, offset: offset as u16, mask: mask << shift, low: low << shift, high: high << shift };
        Expr::Test(test)
    }

    pub(super) fn compile(&self) -> Expr {
        let mut parts = Vec::new();
        let transport = matches!(self.kind, Kind::Port | Kind::TcpOpt | Kind::Field { proto: Some(_), .. });
        if let Some(proto) = self.proto.filter(|_| self.kind != Kind::Proto) {
            parts.push(proto_is(proto));
        }
        if transport {
            // The fragment that has the header.
            parts.push(Expr::Test(Test::exact(Base::Network, 4, 0x1fff, 0)));
        }
        let test = match self.kind {
            Kind::Host | Kind::Net => {
                let own = if self.kind == Kind::Net { self.value.mask } else { u32::MAX };
                let mask = self.mask.map_or(own, |m| m.number);
                let at = |offset| Expr::Test(Test::exact(Base::Network, offset, mask, self.value.number));
                self.sides(at(12), at(16))
            }
            Kind::Ether => self.ether(),
            Kind::Port => {
                let at = |shift| self.compare(Base::Transport, 0, shift, 0xffff);
                self.sides(at(16), at(0))
            }
            Kind::Proto if self.value.number > 0xff => proto_is(self.value.number),
            Kind::Proto => self.compare(Base::Network, 8, 16, 0xff),
            Kind::TcpOpt => {
                let flags = self.value.number << 16;
                Expr::Test(Test::exact(Base::Transport, 12, flags, flags))
            }
            Kind::Frag | Kind::Unfrag => {
                let whole = Test::exact(Base::Network, 4, 0x3fff, 0);
                let whole_expr = Expr::Test(whole);
                return if self.kind == Kind::Unfrag {
                    whole_expr
                } else {
                    Expr::All(vec![Expr::Test(whole.present()), !whole_expr])
                };
            }
            Kind::Field { proto, bit, bits } => {
                let base = if proto.is_some() { Base::Transport } else { Base::Network };
                let (word, within) = (bit / 32 * 4, bit % 32);
                self.compare(base, word, 32 - within - bits, u32::MAX >> (32 - bits))
            }
            _ => Expr::Const(false),
        };
        parts.push(if self.negated { opposite(test) } else { test });
        one_or(parts, Expr::All)
    }

    pub(super) fn sides(&self, src: Expr, dst: Expr) -> Expr {
        match self.side {
            Some(Side::Src) => src,
            Some(Side::Dst) => dst,
            Some(Side::Both) => Expr::All(vec![src, dst]),
            _ => Expr::Any(vec![src, dst]),
        }
    }

    pub(super) fn ether(&self) -> Expr {
        let bits = |m: [u8; 6]| u64::from_be_bytes([0, 0, m[0], m[1], m[2], m[3], m[4], m[5]]);
        let mask = self.mask.filter(|m| m.kind == Kind::Ether).map_or(u64::MAX >> 16, |m| bits(m.mac));
        let value = bits(self.value.mac);
        let at = |offset, shift: i32| {
            let word = |v: u64| if shift >= 0 { (v >> shift) as u32 } else { (v << -shift) as u32 };
            Expr::Test(Test::exact(Base::Data, offset, word(mask), word(value)))
        };
        let src = Expr::All(vec![at(8, 0), at(4, 32)]);
        let dst = Expr::All(vec![at(0, 16), at(4, -16)]);
        self.sides(src, dst)
    }
}

/// The opposite of a test, which also fails where bytes are missing.
pub(super) fn opposite(test: Expr) -> Expr {
    let mut present = Vec::new();
    gather(&test, &mut present);
    let mut parts: Vec<Expr> = present.into_iter().map(Expr::Test).collect();
    parts.push(!test);
    Expr::All(parts)
}

pub(super) fn gather(expr: &Expr, present: &mut Vec<Test>) {
    match expr {
        Expr::Test(test) => present.push(test.present()),
        Expr::All(parts) | Expr::Any(parts) => parts.iter().for_each(|p| gather(p, present)),
        _ => {}
    }
}

pub(super) fn proto_is(proto: u32) -> Expr {
    let is = |p: u32| Expr::Test(Test::exact(Base::Network, 8, 0x00ff_0000, p << 16));
    match proto {
        TCP_OR_UDP => Expr::Any(vec![is(TCP), is(UDP)]),
        p if p > 0xff => Expr::Const(true),
        p => is(p),
    }
}

/// The only one, or all together.
pub(super) fn one_or(mut parts: Vec<Expr>, join: fn(Vec<Expr>) -> Expr) -> Expr {
    if parts.len() == 1 { parts.remove(0) } else { join(parts) }
}
