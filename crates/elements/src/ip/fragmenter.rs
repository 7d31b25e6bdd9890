// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fragmenter of both address families. A [`Family`] says what differs: the MTUs there are, and how a packet is split.

use std::ops::RangeInclusive;

use element::args::Args;
use element::clock::Nanos;
use element::program::Program;
use element::swap::Count;
use element::{Class, Cx, Element, Handler, InitCx, Reason, Rehearsal, carries, handlers};
use packet::{Batch, Packet};

use crate::io::mtu::LinkMtu;

/// The timer by which links are looked at.
const LOOK: u32 = 0;

/// What differs between IPv4 and IPv6: its settings are the arguments that only this family has.
pub(crate) trait Family: Clone + Default + Send + 'static {
    /// MTUs that can be, in bytes.
    const MTU: RangeInclusive<usize>;

    /// Reads the arguments of this family.
    fn configure(&mut self, args: &mut Args<'_>);

    /// Length of the longest packet like this one that passes, where links take `mtu` bytes.
    #[inline]
    fn mtu_of(&self, _: &Packet, mtu: usize) -> usize {
        mtu
    }

    /// The fragments of a packet that is too long.
    ///
    /// # Errors
    /// Why there are none. With [`Reason::MustFragment`] the packet is sound, but it must not be split.
    fn split(&self, cx: &mut Cx<'_>, packet: &Packet, mtu: usize) -> Result<Batch, Reason>;

    /// Says that a packet must not be split, after `refused` others.
    fn report(&self, _: &mut Cx<'_>, _: &Packet, _mtu: usize, _refused: u64) {}

    /// Publishes which packets pass as they are.
    fn program(&self, mtu: usize, program: &mut dyn Program<'_>);
}

/// An element that lets packets pass which fit, and splits longer ones.
#[derive(Clone, Default)]
pub(crate) struct Fragmenter<F> {
    mtu: usize,
    family: F,
    follow: LinkMtu,
    refused: Count,
    fragments: Count,
}

/// Bytes from the network header to the packet's end.
#[inline]
fn ip_length(packet: &Packet) -> usize {
    let before = packet.network_offset().unwrap_or(0).max(0) as usize;
    packet.len().saturating_sub(before)
}

impl<F: Family> Fragmenter<F> {
    /// Declares what elements of this type can do besides processing packets.
    pub(crate) const fn with_capabilities(class: Class) -> Class {
        class.hot_swap::<Self>().rehearsal::<Self>()
    }

    /// The handlers of every fragmenter.
    pub(crate) const HANDLERS: &[Handler] = handlers! { Fragmenter<F>:
        sum "drops" => .refused;
        sum "fragments" => .fragments;
        read "mtu" => |fragmenter| fragmenter.mtu();
    };

    /// Length of the longest packet that links take, in bytes.
    #[inline]
    fn mtu(&self) -> usize {
        self.follow.or(self.mtu).clamp(*F::MTU.start(), *F::MTU.end())
    }

    #[cold]
    fn handle_long(&mut self, cx: &mut Cx<'_>, packet: Packet, mtu: usize) {
        match self.family.split(cx, &packet, mtu) {
            Ok(batch) => {
                self.fragments += batch.len() as u64;
                cx.took(1);
                cx.made(batch.len());
                cx.push_joined(0, batch);
            }
            Err(Reason::MustFragment) => {
                self.family.report(cx, &packet, mtu, *self.refused);
                self.refused += 1;
                cx.push_one_or_drop(1, packet, Reason::MustFragment);
            }
            Err(reason) => cx.drop(reason, packet),
        }
    }
}

impl<F: Family> Element for Fragmenter<F> {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.mtu = args.required("MTU");
        self.family.configure(args);
        self.follow = LinkMtu::from_args(args);
        if args.errors().is_empty() && !F::MTU.contains(&self.mtu) {
            let (min, max) = F::MTU.into_inner();
            let range = match max {
                usize::MAX => format!("be {min} bytes or more"),
                _ => format!("lie between {min} and {max} bytes"),
            };
            args.error(format!("MTU must {range}, not {}", self.mtu));
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.follow.initialize(cx, LOOK)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        self.follow.look(cx, timer);
    }

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        self.family.program(self.mtu(), program);
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        let mtu = self.mtu();
        if batch.iter().all(|p| ip_length(p) <= self.family.mtu_of(p, mtu)) {
            return cx.push(0, batch);
        }
        // Long packets leave in their place among the others.
        for packet in batch.drain(..) {
            let mtu = self.family.mtu_of(&packet, mtu);
            match ip_length(&packet) <= mtu {
                true => cx.push_one(0, packet),
                false => self.handle_long(cx, packet, mtu),
            }
        }
    }
}

impl<F: Family> Rehearsal for Fragmenter<F> {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(Fragmenter<F: Family>: refused, fragments; anew mtu, family, follow);
