// SPDX-License-Identifier: MIT OR Apache-2.0
//! The few BPF operations that drivers need, by the `bpf` system call itself.
//!
//! Most of our programs have a handful of instructions and are written here as numbers, a longer one by name ([`asm`]): neither a
//! compiler nor libbpf is needed. Programs are attached by links: the kernel detaches them when the last descriptor closes, so a
//! crash leaves nothing behind.

pub(crate) mod asm;
mod btf;

use std::io;
use std::os::fd::{AsFd as _, AsRawFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

use crate::opener::{self, Call};
use crate::sys::Map;

use asm::{Assembler, If, Op, Reg, Size};

const MAP_CREATE: i32 = 0;
const MAP_UPDATE: i32 = 2;
const MAP_DELETE: i32 = 3;
const PROG_LOAD: i32 = 5;
const LINK_CREATE: i32 = 28;
const LINK_UPDATE: i32 = 29;

const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_XSKMAP: u32 = 17;
/// The map's content can be mapped into a process.
const MAP_MMAPABLE: u32 = 1 << 10;
const PROG_TYPE_CLASSIFIER: u32 = 3;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const ATTACH_TCX_INGRESS: u32 = 46;
const ATTACH_TCX_EGRESS: u32 = 47;
/// The program copes with frames in several buffers.
const PROG_FRAGS: u32 = 1 << 5;

/// One instruction: opcode, registers (destination low, source high), offset, constant.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    constant: i32,
}

const fn instruction(code: u8, registers: u8, offset: i16, constant: i32) -> Instruction {
    Instruction { code, registers, offset, constant }
}

#[derive(Default)]
#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
}

#[derive(Default)]
#[repr(C)]
struct MapElement {
    map: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[derive(Default)]
#[repr(C)]
struct ProgLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    ifindex: u32,
    expected_attach_type: u32,
}

#[derive(Default)]
#[repr(C)]
struct LinkCreate {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
    _tail: [u64; 4],
}

#[repr(C)]
struct LinkUpdate {
    link: u32,
    program: u32,
    flags: u32,
    old_program: u32,
}

/// # Safety
/// `T` is the structure that `command` takes, and the pointers in it are valid for what the command does with them.
unsafe fn call<T>(command: i32, attributes: &T) -> io::Result<i32> {
    // SAFETY: by contract; the kernel reads `size_of::<T>()` bytes.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>() as libc::c_uint)
    };
    crate::sys::check(result as i32)
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: every caller passes a descriptor that the kernel has just made for us.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A map from receive queue to AF_XDP socket.
#[derive(Debug)]
pub(crate) struct XskMap(OwnedFd);

impl XskMap {
    pub(crate) fn new(queues: u32) -> io::Result<XskMap> {
        if let Some(asked) = opener::ask_for_one(Call::XskMap, [queues, 0, 0, 0], &[], &[]) {
            return asked.map(XskMap);
        }
        let attributes = MapCreate {
            kind: MAP_TYPE_XSKMAP,
            key_size: 4,
            value_size: 4,
            max_entries: queues.max(1),
            flags: 0,
        };
        // SAFETY: no pointers.
        unsafe { call(MAP_CREATE, &attributes) }.map(|fd| XskMap(owned(fd)))
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        self.0
    }

    /// Redirects `queue` to `socket`.
    pub(crate) fn set(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        let fds = [self.0.as_fd(), socket.as_fd()];
        opener::ask_to(Call::XskSet, [queue, 0, 0, 0], &[], &fds)
            .unwrap_or_else(|| set_socket(&self.0, queue, socket))
    }

    /// Lets the kernel have `queue`'s packets again.
    pub(crate) fn clear(&self, queue: u32) {
        let element = MapElement {
            map: self.0.as_raw_fd() as u32,
            key: (&raw const queue) as u64,
            ..Default::default()
        };
        // SAFETY: as in `set`. An entry that is gone already is as good.
        let _ = unsafe { call(MAP_DELETE, &element) };
    }
}

/// Redirects a queue of a map to a socket.
pub(crate) fn set_socket(map: &OwnedFd, queue: u32, socket: &OwnedFd) -> io::Result<()> {
    let value = socket.as_raw_fd();
    let element = MapElement {
        map: map.as_raw_fd() as u32,
        key: (&raw const queue) as u64,
        value: (&raw const value) as u64,
        ..Default::default()
    };
    // SAFETY: key and value are read during the call, four bytes each.
    unsafe { call(MAP_UPDATE, &element) }.map(drop)
}

/// An array map of one value of `len` bytes, which is mapped into this process too.
pub(crate) fn shared_array(len: usize) -> io::Result<(OwnedFd, Map)> {
    let value_size = u32::try_from(len).map_err(|_| io::Error::from_raw_os_error(libc::E2BIG))?;
    let attributes =
        MapCreate { kind: MAP_TYPE_ARRAY, key_size: 4, value_size, max_entries: 1, flags: MAP_MMAPABLE };
    // SAFETY: no pointers.
    let map = unsafe { call(MAP_CREATE, &attributes) }.map(owned)?;
    let content = Map::new(&map, len, 0)?;
    Ok((map, content))
}

/// Loads an XDP program.
pub(crate) fn load_xdp(code: &[Instruction], name: &str) -> io::Result<OwnedFd> {
    load(PROG_TYPE_XDP, code, 0, ATTACH_XDP, name)
}

fn load(kind: u32, code: &[Instruction], flags: u32, attach: u32, name: &str) -> io::Result<OwnedFd> {
    load_bound(kind, code, flags, attach, name, 0)
}

/// The same for a program that belongs to one interface, unless that is 0.
fn load_bound(
    kind: u32,
    code: &[Instruction],
    flags: u32,
    attach: u32,
    name: &str,
    ifindex: u32,
) -> io::Result<OwnedFd> {
    let license = c"Dual MIT/GPL";
    let mut attributes = ProgLoad {
        kind,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        flags,
        ifindex,
        expected_attach_type: attach,
        ..Default::default()
    };
    attributes.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: code and licence are read during the call.
    unsafe { call(PROG_LOAD, &attributes) }.map(owned)
}

/// The kernel's function that reads a VLAN tag kept next to a frame, by its number in the kernel's own type information
/// (Linux 6.8).
pub(crate) fn tag_function() -> Option<u32> {
    static FOUND: OnceLock<Option<u32>> = OnceLock::new();
    *FOUND.get_or_init(|| btf::function("bpf_xdp_metadata_rx_vlan_tag"))
}

/// The XDP program: redirect to the socket of the packet's receive queue, and let the kernel have it where there is
/// none. With `tags`, the [function](tag_function) that reads a tag and the interface to ask it of, a VLAN tag that is kept next to
/// the frame is put into it first. With `urgent`, the kernel has [urgent packets](crate::urgent).
pub(crate) fn redirect_program(
    map: &XskMap,
    frags: bool,
    tags: Option<(u32, u32)>,
    urgent: bool,
) -> io::Result<OwnedFd> {
    let (function, ifindex) = tags.unwrap_or_default();
    let numbers = [frags.into(), function, ifindex, urgent.into()];
    opener::ask_for_one(Call::Redirect, numbers, &[], &[map.0.as_fd()])
        .unwrap_or_else(|| load_redirect(&map.0, frags, tags, urgent))
}

/// Makes and loads that program.
pub(crate) fn load_redirect(
    map: &OwnedFd,
    frags: bool,
    tags: Option<(u32, u32)>,
    urgent: bool,
) -> io::Result<OwnedFd> {
    const XDP_PASS: i32 = 2;
    const REDIRECT_MAP: i32 = 51;
    const DEV_BOUND_ONLY: u32 = 1 << 6;
    const QUEUE: usize = 16;
    let mut asm = Assembler::default();
    asm.set(Reg::R6, Reg::R1);
    if let Some((function, _)) = tags {
        insert_tag(&mut asm, function);
    }
    if urgent {
        crate::urgent::sort::pass(&mut asm);
    }
    asm.load(Size::Word, Reg::R2, (Reg::R6, QUEUE));
    asm.map(Reg::R1, map);
    asm.set(Reg::R3, XDP_PASS);
    asm.call(REDIRECT_MAP);
    asm.end();
    let flags = if frags { PROG_FRAGS } else { 0 } | if tags.is_some() { DEV_BOUND_ONLY } else { 0 };
    let bound = tags.map_or(0, |(_, ifindex)| ifindex);
    load_bound(PROG_TYPE_XDP, &asm.finish(), flags, ATTACH_XDP, "junctor_xsk", bound)
}

/// Puts the tag of the frame whose context is in R6 between its addresses and its type. A frame without room in front is dropped.
fn insert_tag(asm: &mut Assembler, function: u32) {
    const XDP_DROP: i32 = 1;
    const ADJUST_HEAD: i32 = 44;
    let (protocol, tag) = (-8, -16);
    let (untagged, lost, tagged) = (asm.label(), asm.label(), asm.label());
    for (register, at) in [(Reg::R2, protocol), (Reg::R3, tag)] {
        asm.set(register, Reg::R10);
        asm.op(Op::Add, register, at);
    }
    asm.set(Reg::R0, 0);
    asm.put_aside(1, Reg::R0);
    asm.put_aside(2, Reg::R0);
    asm.call_kernel(function);
    asm.jump_if(Reg::R0, If::NotEqual, 0, untagged);
    asm.set(Reg::R1, Reg::R6);
    asm.set(Reg::R2, -4);
    asm.call(ADJUST_HEAD);
    asm.jump_if(Reg::R0, If::NotEqual, 0, lost);
    asm.load(Size::Word, Reg::R2, (Reg::R6, 0));
    asm.load(Size::Word, Reg::R3, (Reg::R6, 4));
    asm.set(Reg::R4, Reg::R2);
    asm.op(Op::Add, Reg::R4, 18);
    asm.jump_if(Reg::R4, If::Greater, Reg::R3, lost);
    asm.copy((Reg::R2, 0), (Reg::R2, 4), 12, Reg::R5);
    // The protocol stands in network order, the tag in this machine's.
    asm.take_back(1, Reg::R5);
    asm.store(Size::Half, (Reg::R2, 12), Reg::R5);
    asm.take_back(2, Reg::R5);
    asm.network_order(Reg::R5, 16);
    asm.store(Size::Half, (Reg::R2, 14), Reg::R5);
    asm.jump(tagged);
    asm.place(lost);
    asm.exit(XDP_DROP);
    asm.place(untagged);
    asm.place(tagged);
}

/// Attaches an XDP program to an interface until the result is dropped.
pub(crate) fn attach_xdp(program: &OwnedFd, ifindex: u32, generic: bool) -> io::Result<OwnedFd> {
    const SKB_MODE: u32 = 1 << 1;
    const DRIVER_MODE: u32 = 1 << 2;
    let asked = opener::ask_for_one(Call::Attach, [ifindex, generic.into(), 0, 0], &[], &[program.as_fd()]);
    if let Some(asked) = asked {
        return asked;
    }
    link(program, ifindex, ATTACH_XDP, if generic { SKB_MODE } else { DRIVER_MODE })
}

/// Keeps the kernel's own protocols from what the interface receives, until the result is dropped. Packet sockets
/// come before the hook and still see everything.
pub(crate) fn swallow(ifindex: u32) -> io::Result<OwnedFd> {
    const TCX_DROP: i32 = 2;
    if let Some(asked) = opener::ask_for_one(Call::Swallow, [ifindex, 0, 0, 0], &[], &[]) {
        return asked;
    }
    let code = [instruction(0xb7, 0, 0, TCX_DROP), instruction(0x95, 0, 0, 0)];
    at_ingress(&code, ifindex, "junctor_swallow")
}

/// Has a program of traffic control decide on what the interface receives, until the result is dropped.
pub(crate) fn at_ingress(code: &[Instruction], ifindex: u32, name: &str) -> io::Result<OwnedFd> {
    let program = load(PROG_TYPE_CLASSIFIER, code, 0, ATTACH_TCX_INGRESS, name)?;
    link(&program, ifindex, ATTACH_TCX_INGRESS, 0)
}

/// Tags all that the kernel sends from an interface (innermost tag first), and untags what it receives, until the results are
/// dropped.
pub(crate) fn tagger(ifindex: u32, tags: &[(u16, u16)]) -> io::Result<[OwnedFd; 2]> {
    const TCX_NEXT: i32 = -1;
    const PUSH: i32 = 18;
    const POP: i32 = 19;
    let attach = |at: u32, step: &dyn Fn(&mut Assembler, (u16, u16))| {
        let mut asm = Assembler::default();
        asm.set(Reg::R6, Reg::R1);
        for tag in tags {
            asm.set(Reg::R1, Reg::R6);
            step(&mut asm, *tag);
        }
        asm.exit(TCX_NEXT);
        let program = load(PROG_TYPE_CLASSIFIER, &asm.finish(), 0, at, "junctor_tags")?;
        link(&program, ifindex, at, 0)
    };
    let egress = attach(ATTACH_TCX_EGRESS, &|asm, (protocol, tag)| {
        asm.set(Reg::R2, i32::from(protocol.to_be()));
        asm.set(Reg::R3, i32::from(tag));
        asm.call(PUSH);
    })?;
    let ingress = attach(ATTACH_TCX_INGRESS, &|asm, _| asm.call(POP))?;
    Ok([egress, ingress])
}

/// Puts another program in the place of the one that is attached; every frame meets one of them.
pub(crate) fn replace(link: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    if let Some(asked) = opener::ask_to(Call::Replace, [0; 4], &[], &[link.as_fd(), program.as_fd()]) {
        return asked;
    }
    let attributes = LinkUpdate {
        link: link.as_raw_fd() as u32,
        program: program.as_raw_fd() as u32,
        flags: 0,
        old_program: 0,
    };
    // SAFETY: no pointers.
    unsafe { call(LINK_UPDATE, &attributes) }.map(drop)
}

fn link(program: &OwnedFd, ifindex: u32, attach_type: u32, flags: u32) -> io::Result<OwnedFd> {
    let attributes = LinkCreate {
        program: program.as_raw_fd() as u32,
        target: ifindex,
        attach_type,
        flags,
        ..Default::default()
    };
    // SAFETY: no pointers.
    unsafe { call(LINK_CREATE, &attributes) }.map(owned)
}

/// An XDP program that writes `frame`, a multiple of four bytes, over the packet and sends it back.
pub(crate) fn generator_program(frame: &[u8], random_at: Option<u16>) -> io::Result<OwnedFd> {
    const XDP_TX: i32 = 3;
    const PRANDOM: i32 = 7;
    let mut code = vec![
        instruction(0xbf, 0x16, 0, 0),                  // r6 = context
        instruction(0x85, 0, 0, PRANDOM),               // r0 = random
        instruction(0xbf, 0x07, 0, 0),                  // r7 = r0
        instruction(0x61, 0x62, 0, 0),                  // r2 = context.data
        instruction(0x61, 0x63, 4, 0),                  // r3 = context.data_end
        instruction(0xbf, 0x24, 0, 0),                  // r4 = r2
        instruction(0x07, 0x04, 0, frame.len() as i32), // r4 += length
    ];
    let stores: Vec<Instruction> = frame
        .chunks_exact(4)
        .enumerate()
        .map(|(i, word)| {
            let word = i32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
            instruction(0x62, 0x02, (i * 4) as i16, word) // *(u32 *)(r2 + 4 i) = word
        })
        .chain(random_at.map(|at| instruction(0x6b, 0x72, at as i16, 0))) // *(u16 *)(r2 + at) = r7
        .collect();
    code.push(instruction(0x2d, 0x34, stores.len() as i16, 0)); // if r4 > r3, skip the stores
    code.extend(stores);
    code.push(instruction(0xb7, 0, 0, XDP_TX)); // r0 = XDP_TX
    code.push(instruction(0x95, 0, 0, 0)); // return r0
    load(PROG_TYPE_XDP, &code, 0, ATTACH_XDP, "junctor_gen")
}

#[derive(Default)]
#[repr(C)]
struct TestRun {
    program: u32,
    result: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    _pad: u32,
}

/// Runs an XDP program on `count` live copies of `frame`, as if received from `ifindex`, `batch` (at most 256) between two looks
/// for signals.
pub(crate) fn run_live(
    program: &OwnedFd,
    ifindex: u32,
    frame: &[u8],
    count: u32,
    batch: u32,
) -> io::Result<()> {
    const TEST_RUN: i32 = 10;
    const LIVE_FRAMES: u32 = 1 << 1;
    // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
    let context = [0, frame.len() as u32, 0, ifindex, 0, 0];
    let run = TestRun {
        program: program.as_raw_fd() as u32,
        data_size_in: frame.len() as u32,
        data_in: frame.as_ptr() as u64,
        repeat: count,
        context_size_in: size_of_val(&context) as u32,
        context_in: context.as_ptr() as u64,
        flags: LIVE_FRAMES,
        batch_size: batch,
        ..Default::default()
    };
    // SAFETY: frame and context are read during the call.
    unsafe { call(TEST_RUN, &run) }.map(drop)
}
