// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receiving from a packet socket's memory-mapped ring.
//!
//! ```text
//! ring    | block 0 | block 1 | ... |        each handed over by its status word
//! block   | header | frame | frame | ...     each frame: tpacket3_hdr, address, virtio_net_hdr, bytes
//! ```
//! Layouts: `Documentation/networking/packet_mmap.rst` and `linux/if_packet.h`.

pub(crate) mod older;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use packet::filter::Filter;
use packet::port::{Error, Link, QueueStats, RxQueue};
use packet::{Batch, Packet, PacketType, anno};
use sync::mutex::lock;

use crate::aliases::Aliases;

use super::{Options, Shared, bind, orphaned};
use crate::expression;
use crate::keeper::Kept;
use crate::link::Pace;
use crate::memory::Taken;
use crate::offload::{self, Unfinished, Unsplit};
use crate::sys::{self, Aside, Counters, Doorbell, Map};

const PACKET_RX_RING: i32 = 5;
const PACKET_STATISTICS: i32 = 6;
const PACKET_VERSION: i32 = 10;
const PACKET_VNET_HDR: i32 = 15;
const PACKET_FANOUT: i32 = 18;
const PACKET_IGNORE_OUTGOING: i32 = 23;
const TPACKET_V3: i32 = 2;
const FANOUT_HASH: u32 = 0;
const FANOUT_UNIQUE: u32 = 0x2000;

const STATUS_USER: u32 = 1;
const STATUS_VLAN_VALID: u32 = 1 << 4;
const STATUS_VLAN_TPID_VALID: u32 = 1 << 6;

/// A block holds a joined frame of 64 KiB with its headers.
const BLOCK_SIZE: usize = 128 * 1024;
/// Blocks of a device's rings together, and of one ring at least. With a packet now and then each block is handed over with one packet
/// in it. So their number is also how many times [`BLOCK_TIMEOUT_MS`] the reader may be away before packets are lost. It is away while
/// the scheduler runs another thread, or while a configuration takes the place of another.
const BLOCKS: usize = 128;
const BLOCKS_AT_LEAST: usize = 32;
/// After this long the kernel hands over a block that is not full.
const BLOCK_TIMEOUT_MS: u32 = 1;

#[repr(C)]
struct RingRequest {
    block_size: u32,
    blocks: u32,
    frame_size: u32,
    frames: u32,
    block_timeout_ms: u32,
    private_size: u32,
    features: u32,
}

/// `tpacket3_hdr`, and the address that follows it.
#[derive(Clone, Copy)]
#[repr(C)]
struct FrameHeader {
    next_offset: u32,
    sec: u32,
    nsec: u32,
    snaplen: u32,
    len: u32,
    status: u32,
    mac: u16,
    net: u16,
    hash: u32,
    vlan_tci: u32,
    vlan_tpid: u16,
    _padding: [u8; 10],
    address: libc::sockaddr_ll,
}

const _: () = assert!(std::mem::offset_of!(FrameHeader, address) == 48);

#[derive(Clone, Copy)]
#[repr(C)]
struct RingStatistics {
    packets: u32,
    drops: u32,
    freezes: u32,
}

// SAFETY: three integers.
unsafe impl sys::Plain for RingStatistics {}

/// A socket with its ring.
struct Ring {
    // The mapping goes first: a mapped ring keeps the socket alive.
    map: Map,
    socket: Arc<OwnedFd>,
    blocks: usize,
    block: usize,
    /// Frames of the current block not yet taken, and where the next one begins; 0 frames: the block is the kernel's.
    left: u32,
    next: usize,
    /// Its socket is kept for another process until then.
    _kept: Option<Kept>,
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.left > 0 {
            // The next process goes on behind the frames that were taken.
            self.set_word(12, self.left);
            self.set_word(16, self.next as u32);
        }
    }
}

/// Makes the ring of a socket.
fn make_ring(socket: &OwnedFd, blocks: usize, block_timeout_ms: u32) -> io::Result<Map> {
    let request = RingRequest {
        block_size: BLOCK_SIZE as u32,
        blocks: blocks as u32,
        frame_size: 2048,
        frames: (BLOCK_SIZE / 2048 * blocks) as u32,
        block_timeout_ms,
        private_size: 0,
        features: 0,
    };
    sys::set_option(socket, libc::SOL_PACKET, PACKET_RX_RING, &request)?;
    Map::new(socket, BLOCK_SIZE * blocks, 0)
}

impl Ring {
    /// The ring of a queue: that of an earlier process, if it was kept.
    fn open(shared: &Shared, options: &Options, ifindex: u32, queue: usize) -> io::Result<Ring> {
        let blocks = match shared.is_urgent {
            true => BLOCKS_AT_LEAST,
            false => (BLOCKS / shared.queues.max(1)).max(BLOCKS_AT_LEAST),
        };
        let kept = shared.kept(format_args!("{queue}of{}/{blocks}x{BLOCK_SIZE}", shared.queues));
        let mut ring = match older::adopt(shared, options, ifindex, kept.take(), blocks) {
            Some(ring) => ring,
            None => Ring::make(shared, options, ifindex, blocks)?,
        };
        kept.keep(&ring.socket);
        ring._kept = Some(kept);
        Ok(ring)
    }

    fn make(shared: &Shared, options: &Options, ifindex: u32, blocks: usize) -> io::Result<Ring> {
        let socket = shared.socket(0, ifindex)?;
        let map = Ring::prepare(&socket, options, blocks, BLOCK_TIMEOUT_MS)?;
        let socket = Arc::new(socket);
        shared.admit(&socket)?;
        bind(&socket, libc::ETH_P_ALL as u16, ifindex)?;
        if shared.queues > 1 || shared.group.is_some() {
            join_fanout(shared, &socket, ifindex)?;
        }
        Ok(Ring::of(socket, map, blocks))
    }

    fn of(socket: Arc<OwnedFd>, map: Map, blocks: usize) -> Ring {
        Ring { map, socket, blocks, block: 0, left: 0, next: 0, _kept: None }
    }

    /// Makes the ring of a socket that is not bound yet.
    fn prepare(socket: &OwnedFd, options: &Options, blocks: usize, block_timeout_ms: u32) -> io::Result<Map> {
        let set = |name, value: i32| sys::set_option(socket, libc::SOL_PACKET, name, &value);
        set(PACKET_VERSION, TPACKET_V3)?;
        // What a frame lacks, and how it was joined: the status word's TP_STATUS_CSUMNOTREADY says only that it lacks something.
        set(PACKET_VNET_HDR, 1)?;
        if !options.outbound {
            // Linux 4.20; older ones are filtered by packet type below.
            let _ = set(PACKET_IGNORE_OUTGOING, 1);
        }
        make_ring(socket, blocks, block_timeout_ms)
    }

    /// The status word of the current block.
    fn status(&self) -> &AtomicU32 {
        // The block begins with two words (version, offset of private data), then the status.
        // SAFETY: inside the mapping and aligned; the kernel writes it, so it is only touched atomically.
        unsafe { AtomicU32::from_ptr(self.map.at(self.block * BLOCK_SIZE + 8).cast()) }
    }

    /// A word of the current block's header, which must be ours.
    fn word(&self, at: usize) -> u32 {
        // SAFETY: inside the mapping and aligned; the block is ours, so nobody writes it.
        unsafe { self.map.at(self.block * BLOCK_SIZE + at).cast::<u32>().read() }
    }

    /// Sets such a word.
    fn set_word(&mut self, at: usize, value: u32) {
        // SAFETY: as above.
        unsafe { self.map.at(self.block * BLOCK_SIZE + at).cast::<u32>().write(value) };
    }

    /// Begins the current block if the kernel has handed it over.
    fn begin_block(&mut self) -> bool {
        // Acquire: the frames were written before the status.
        while self.status().load(Ordering::Acquire) & STATUS_USER != 0 {
            self.left = self.word(12);
            self.next = self.word(16) as usize;
            if self.left > 0 {
                return true;
            }
            self.end_block();
        }
        false
    }

    fn end_block(&mut self) {
        self.left = 0;
        // Release: our reads come before the kernel's next writes.
        self.status().store(0, Ordering::Release);
        self.block = (self.block + 1) % self.blocks;
    }

    /// The frame at hand: its header, what it lacks, and its bytes. `None` when the ring's content makes no sense.
    fn frame(&self) -> Option<(FrameHeader, &[u8])> {
        let base = self.block * BLOCK_SIZE;
        if self.next + size_of::<FrameHeader>() > BLOCK_SIZE {
            return None;
        }
        // SAFETY: inside the current block, which is ours; the kernel aligns frames to 16 bytes.
        let header = unsafe { self.map.at(base + self.next).cast::<FrameHeader>().read_unaligned() };
        let (start, len) = (self.next + usize::from(header.mac), header.snaplen as usize);
        if start + len > BLOCK_SIZE || start < 10 {
            return None;
        }
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(self.map.at(base + start), len) };
        Some((header, bytes))
    }

    /// Lets the kernel keep frames that the filter refuses. Lengths are asked of single frames, and the kernel has joined
    /// ones, so then we are the first to ask. A kernel that does not take the program leaves it to us, too.
    fn narrow(&self, shared: &Shared, filter: Option<&Filter>) {
        let sockets = lock(&shared.sockets);
        // Then it is done when this ring's packets are due.
        if lock(&shared.older).waits {
            return;
        }
        // A socket has one filter, and the one that selects urgent packets is there already.
        if let Some(filter) = filter.filter(|f| !f.asks_length() && !sockets.parted && !shared.is_urgent) {
            let _ = sys::attach_filter(&self.socket, &expression::for_kernel(filter));
        }
    }

    /// Lets the kernel deliver all again that is this ring's.
    fn widen(&self, shared: &Shared) {
        let sockets = lock(&shared.sockets);
        if !sockets.parted && !shared.is_urgent && !lock(&shared.older).waits {
            sys::detach_filter(&self.socket);
        }
    }

    fn unfinished(&self, header: &FrameHeader) -> Unfinished {
        let at = self.block * BLOCK_SIZE + self.next + usize::from(header.mac) - size_of::<Unfinished>();
        // SAFETY: the socket has PACKET_VNET_HDR set, so this header lies right before the frame; the block is ours.
        unsafe { self.map.at(at).cast::<Unfinished>().read_unaligned() }
    }

    fn advance(&mut self, header: &FrameHeader) {
        self.left -= 1;
        self.next += header.next_offset as usize;
        if self.left == 0 || header.next_offset == 0 {
            self.end_block();
        }
    }
}

/// Joins the device's group of sockets, making it first if this is the first.
fn join_fanout(shared: &Shared, socket: &OwnedFd, ifindex: u32) -> io::Result<()> {
    let mut group = lock(&shared.fanout);
    let join = |value: u32| sys::set_option(socket, libc::SOL_PACKET, PACKET_FANOUT, &value);
    if let Some(name) = &shared.group {
        // All processes of the group know this number. One that meets it by chance at the same interface would get some of the flows.
        let mut hasher = DefaultHasher::new();
        (name, ifindex).hash(&mut hasher);
        return join(u32::from(hasher.finish() as u16) | FANOUT_HASH << 16);
    }
    if let Some(number) = *group {
        return join(u32::from(number) | FANOUT_HASH << 16);
    }
    // The kernel picks the number. A number of ours may be that of another process at this interface, and both would get half.
    join((FANOUT_HASH | FANOUT_UNIQUE) << 16)?;
    let made: u32 = sys::get_option(socket, libc::SOL_PACKET, PACKET_FANOUT)?;
    *group = Some(made as u16);
    Ok(())
}

/// The receive queue.
pub(super) struct PacketRx {
    shared: Arc<Shared>,
    queue: usize,
    options: Options,
    /// Packets from before this process, which are delivered first.
    older: Option<older::Reader>,
    /// What is wanted; the kernel applies it first, and we to what the kernel could not see.
    filter: Option<Arc<Filter>>,
    /// `None` while the interface is gone.
    ring: Option<Ring>,
    doorbell: Doorbell,
    aside: Aside<Option<io::Result<Ring>>>,
    pace: Pace,
    counters: Counters,
    missed: AtomicU64,
    _taken: Taken,
}

impl PacketRx {
    pub(super) fn open(shared: Arc<Shared>, queue: usize, taken: Taken) -> Result<PacketRx, Error> {
        let options = lock(&shared.options).clone();
        let ring = Ring::open(&shared, &options, shared.watch.bound(), queue);
        let ring = ring.map_err(|e| shared.explain(&e))?;
        let doorbell = Doorbell::new().map_err(|e| shared.explain(&e))?;
        doorbell.listen(&ring.socket).map_err(|e| shared.explain(&e))?;
        let older = older::Reader::new(&shared, &doorbell);
        Ok(PacketRx {
            doorbell,
            older,
            queue,
            shared,
            options,
            filter: None,
            ring: Some(ring),
            aside: Aside::default(),
            pace: Pace::default(),
            counters: Counters::default(),
            missed: AtomicU64::new(0),
            _taken: taken,
        })
    }

    /// Looks whether the interface is still there, and binds to its successor if it is not.
    #[cold]
    fn look(&mut self) {
        let healthy = self.ring.as_ref().is_some_and(|ring| {
            // A link that went down leaves an error, which would wake waiting threads until somebody reads it.
            let _ = sys::take_error(&ring.socket);
            !orphaned(&ring.socket)
        });
        if healthy && self.shared.watch.state() != Link::Gone {
            return;
        }
        self.count_missed();
        if self.ring.is_none() && !self.aside.is_busy() && self.shared.watch.index().is_none() {
            return;
        }
        let (shared, options, queue) = (self.shared.clone(), self.options.clone(), self.queue);
        let old = self.ring.take();
        // It stays open as long as somebody keeps it.
        old.iter().for_each(|old| self.doorbell.ignore(&old.socket));
        let reopen = move || {
            drop(old);
            let ifindex = shared.watch.index()?;
            shared.moved_to(ifindex);
            Some(Ring::open(&shared, &options, ifindex, queue))
        };
        match self.aside.look(reopen).flatten() {
            Some(Ok(ring)) if self.doorbell.listen(&ring.socket).is_ok() => {
                ring.narrow(&self.shared, self.filter.as_deref());
                self.ring = Some(ring);
            }
            Some(_) => self.counters.errors(1),
            None => {}
        }
    }

    fn count_missed(&self) {
        if let Some(ring) = &self.ring
            && let Ok(s) =
                sys::get_option::<RingStatistics>(&ring.socket, libc::SOL_PACKET, PACKET_STATISTICS)
        {
            self.missed.fetch_add(u64::from(s.drops), Ordering::Relaxed);
        }
    }
}

impl RxQueue for PacketRx {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        let before = batch.len();
        let how = How {
            options: &self.options,
            filter: self.filter.as_deref(),
            ethernet: self.shared.ethernet,
            aliases: self.shared.aliases.get().map(|aliases| &**aliases),
            counters: &self.counters,
        };
        if let Some(reader) = &mut self.older
            && reader.take(self.ring.as_mut(), &how, batch, max)
        {
            reader.end(&self.doorbell);
            self.older = None;
            self.ring.iter().for_each(|ring| ring.narrow(&self.shared, self.filter.as_deref()));
        }
        if let (None, Some(ring)) = (&self.older, &mut self.ring) {
            take(ring, &how, batch, max.saturating_sub(batch.len() - before));
        }
        let n = batch.len() - before;
        if n == 0 {
            if self.pace.due() {
                self.look();
            }
            return 0;
        }
        self.counters.moved(n, batch[before..].iter().map(Packet::len).sum());
        n
    }

    fn narrow(&mut self, filter: &Arc<Filter>) -> bool {
        if let Some(ring) = &self.ring {
            ring.narrow(&self.shared, Some(filter));
        }
        self.filter = Some(filter.clone());
        true
    }

    fn widen(&mut self) {
        if let (Some(ring), Some(_)) = (&self.ring, self.filter.take()) {
            ring.widen(&self.shared);
        }
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.doorbell.fd())
    }

    fn fault(&self) -> Option<Error> {
        self.shared.watch.fault()
    }

    fn stats(&self) -> QueueStats {
        self.count_missed();
        QueueStats { missed: self.missed.load(Ordering::Relaxed), ..self.counters.read() }
    }
}

/// What becomes of frames.
struct How<'a> {
    options: &'a Options,
    filter: Option<&'a Filter>,
    ethernet: bool,
    aliases: Option<&'a Aliases>,
    counters: &'a Counters,
}

/// Moves up to `max` frames from the ring to the batch; a joined frame counts as one and may yield more.
fn take(ring: &mut Ring, how: &How<'_>, batch: &mut Batch, max: usize) {
    for _ in 0..max {
        if ring.left == 0 && !ring.begin_block() {
            return;
        }
        let Some((header, bytes)) = ring.frame() else {
            how.counters.errors(1);
            ring.end_block();
            continue;
        };
        let mut kind = packet_type(header.address.sll_pkttype);
        if let (PacketType::OtherHost, Some(aliases), Some(to)) = (kind, how.aliases, bytes.first_chunk())
            && aliases.has(to)
        {
            kind = PacketType::Host;
        }
        if kind != PacketType::Outgoing || how.options.outbound {
            take_frame(&header, bytes, &ring.unfinished(&header), kind, how, batch);
        }
        ring.advance(&header);
    }
}

fn packet_type(kind: u8) -> PacketType {
    match kind {
        1 => PacketType::Broadcast,
        2 => PacketType::Multicast,
        3 => PacketType::OtherHost,
        4 => PacketType::Outgoing,
        5 => PacketType::Loopback,
        _ => PacketType::Host,
    }
}

fn take_frame(
    header: &FrameHeader,
    bytes: &[u8],
    what: &Unfinished,
    kind: PacketType,
    how: &How<'_>,
    batch: &mut Batch,
) {
    let How { options, counters, .. } = how;
    let tag = vlan_tag(header);
    let timestamp = u64::from(header.sec) * 1_000_000_000 + u64::from(header.nsec);
    let cut = header.len as usize - bytes.len().min(header.len as usize);
    let mut finish = |mut packet: Packet, cut: usize| {
        if let Some(tag) = tag
            && !insert_tag(&mut packet, tag)
        {
            return counters.no_memory(1);
        }
        if how.filter.is_some_and(|filter| !filter.accepts(packet.data(), packet.len() + cut)) {
            return;
        }
        let excess = match options.snaplen {
            0 => 0,
            snaplen => packet.len().saturating_sub(snaplen),
        };
        packet.trim(excess);
        packet.set_packet_type(kind);
        packet.set_timestamp_ns(timestamp);
        if excess + cut > 0 {
            packet.set_anno_u32(anno::EXTRA_LENGTH, (excess + cut) as u32);
        }
        batch.push(packet);
    };
    if what.is_joined() {
        let link = if how.ethernet { offload::ETHERNET } else { 0 };
        match offload::split(bytes, link, what, options.headroom(), |packet| finish(packet, 0)) {
            Ok(segments) => counters.completed(segments),
            Err(Unsplit::Unknown) => counters.errors(1),
            Err(Unsplit::NoMemory) => counters.no_memory(1),
        }
        return;
    }
    let Some(mut packet) = Packet::copy_with_headroom(options.headroom(), bytes) else {
        return counters.no_memory(1);
    };
    if !what.is_finished() {
        if cut == 0 && offload::finish_checksum(packet.data_mut(), what) {
            counters.completed(1);
        } else {
            counters.errors(1);
        }
    }
    finish(packet, cut);
}

/// The VLAN tag that the kernel keeps next to the frame.
fn vlan_tag(header: &FrameHeader) -> Option<[u8; 4]> {
    if header.status & STATUS_VLAN_VALID == 0 {
        return None;
    }
    let tpid = if header.status & STATUS_VLAN_TPID_VALID != 0 { header.vlan_tpid } else { 0x8100 };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), (header.vlan_tci as u16).to_be_bytes());
    Some([a, b, c, d])
}

/// Puts a tag between the addresses and the type; returns whether there was memory.
fn insert_tag(packet: &mut Packet, tag: [u8; 4]) -> bool {
    if packet.len() < 12 {
        return true;
    }
    let Some(bytes) = packet.push(4) else { return false };
    bytes.copy_within(4..16, 0);
    bytes[12..16].copy_from_slice(&tag);
    true
}
