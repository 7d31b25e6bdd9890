// SPDX-License-Identifier: MIT OR Apache-2.0
//! A packet generator inside the kernel, and a sink: instruments to load a device under test.
//!
//! `BPF_PROG_RUN` with live frames runs an XDP program on frames of the kernel's own making as if they had been received, and does with them what the
//! program says. Ours writes the whole frame anew (the kernel recycles frames, and a device that forwarded one has changed it) and says *send it
//! back*, out of the interface it is said to have come from. No copy, no system call per packet: several million frames per second from one core
//! (`Documentation/bpf/bpf_prog_run.rst`).
//!
//! On a virtual cable the frames arrive only if NAPI runs at the other end: generic receive offload on, or an XDP
//! program attached there.

mod features;
mod program;
pub mod stream;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bpf;
use crate::bpf::asm::{Assembler, Op, Reg, Size};
use crate::link::Interfaces;
use crate::sys::Map;

/// Frames that the kernel makes at a time.
const BATCH: u32 = 64;

/// Sends one frame over and over.
#[derive(Debug)]
pub struct Generator {
    program: OwnedFd,
    ifindex: u32,
    frame: Vec<u8>,
}

impl Generator {
    /// A generator that sends `frame` (at most 256 bytes, padded to a multiple of four) out of interface `name`. With
    /// `random_at`, the 16 bits at that offset are drawn at random for each frame: a source port, for instance.
    ///
    /// # Errors
    /// No such interface, no permission, or a kernel before 5.18.
    pub fn new(name: &str, frame: &[u8], random_at: Option<u16>) -> io::Result<Generator> {
        let mut frame = frame.to_vec();
        frame.resize(frame.len().next_multiple_of(4), 0);
        if frame.len() > 256 || random_at.is_some_and(|at| usize::from(at) + 2 > frame.len()) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let ifindex = Interfaces::new()?.index(name)?;
        Ok(Generator { program: bpf::generator_program(&frame, random_at)?, ifindex, frame })
    }

    /// Sends `count` frames from the calling thread's core and returns when the kernel has done so. Starting costs
    /// the kernel a while, so let `count` be large: two million frames take a fraction of a second.
    ///
    /// # Errors
    /// The interface has gone, or a signal came.
    pub fn send(&self, count: u32) -> io::Result<()> {
        bpf::run_live(&self.program, self.ifindex, &self.frame, count, BATCH)
    }
}

/// Drops all frames that an interface receives, behind packet sockets and before the kernel's own protocols, for as long as
/// it lives.
#[derive(Debug)]
pub struct Sink {
    _link: OwnedFd,
}

impl Sink {
    /// A sink on interface `name`.
    ///
    /// # Errors
    /// No such interface, no permission, or a kernel before 6.6.
    pub fn new(name: &str) -> io::Result<Sink> {
        Ok(Sink { _link: bpf::swallow(Interfaces::new()?.index(name)?)? })
    }
}

/// Puts VLAN tags on all frames that the kernel sends from an interface and takes them off those that it receives there, for as long
/// as it lives. The outermost tag is kept next to the frame, as the kernel's own VLAN interfaces do.
#[derive(Debug)]
pub struct Tagger {
    _links: [OwnedFd; 2],
}

impl Tagger {
    /// Of interface `name`: TPID and tag, the innermost first.
    ///
    /// # Errors
    /// No such interface, no permission, or a kernel before 6.6.
    pub fn new(name: &str, tags: &[(u16, u16)]) -> io::Result<Tagger> {
        Ok(Tagger { _links: bpf::tagger(Interfaces::new()?.index(name)?, tags)? })
    }
}

/// Counts and drops all frames of an interface with one receive queue, in its driver's own hook: nothing costs a receiver less.
#[derive(Debug)]
pub struct HookSink {
    counter: Map,
    _map: OwnedFd,
    _link: OwnedFd,
}

impl HookSink {
    /// A sink on interface `name`.
    ///
    /// # Errors
    /// No such interface, no permission, or a driver without such a hook.
    pub fn new(name: &str) -> io::Result<HookSink> {
        const XDP_DROP: i32 = 1;
        let (map, counter) = bpf::shared_array(8)?;
        let mut asm = Assembler::default();
        asm.value_address(Reg::R1, &map, 0);
        asm.load(Size::Double, Reg::R2, (Reg::R1, 0));
        asm.op(Op::Add, Reg::R2, 1);
        asm.store(Size::Double, (Reg::R1, 0), Reg::R2);
        asm.exit(XDP_DROP);
        let program = bpf::load_xdp(&asm.finish(), "junctor_count")?;
        let link = bpf::attach_xdp(&program, Interfaces::new()?.index(name)?, false)?;
        Ok(HookSink { counter, _map: map, _link: link })
    }

    /// How many frames it has had.
    pub fn received(&self) -> u64 {
        let counter = self.counter.at(0).cast::<AtomicU64>();
        // SAFETY: the mapping holds eight bytes at least from a page's beginning on, and lives as long as `self`.
        unsafe { &*counter }.load(Ordering::Relaxed)
    }
}
