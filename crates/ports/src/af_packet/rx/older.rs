// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that arrive between two processes: a router that is upgraded or restarted loses none that its rings have room for.
//!
//! 1. Each queue's socket is kept with its ring, so packets wait there when the process is killed. A packet now and then takes a block each, so that
//!    is enough for a tenth of a second.
//! 2. A process that ends in order opens a further ring ([`hold`]), whose blocks wait longer to be full. It lasts for seconds. From then
//!    on the queues' sockets receive nothing, and workers have a moment to deliver what they have received.
//! 3. The next process reads what the queues' rings still hold, then lets them receive again, and reads the further ring to its end ([`Reader`]). The
//!    order of packets is kept, but for those that other queues receive meanwhile.
//!
//! A packet that arrives between the two system calls of a change comes twice.
//!
//! AF_XDP sockets belong to the memory of their process. So the interface has none between two processes, and the further ring alone lasts.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use packet::Batch;
use sync::mutex::lock;

use super::{
    BLOCK_SIZE, How, Options, PACKET_FANOUT, PACKET_IGNORE_OUTGOING, PACKET_VERSION, PACKET_VNET_HDR, Ring,
    STATUS_USER, Shared, TPACKET_V3, join_fanout, take,
};
use crate::af_packet::{Older, bind, bound_to, name};
use crate::aliases::Aliases;
use crate::keeper::Keeper;
use crate::sys::{self, Counters, Doorbell, Map, coarse_ms};
use crate::urgent::sort::{self, Part};

/// Blocks of the further ring, and for how long one waits to be full.
const BLOCKS: usize = 64;
const TIMEOUT_MS: u32 = 50;
/// Its name, which another number or size of blocks changes.
const HOLD: &str = "hold/64x131072";
const _: () = assert!(BLOCKS == 64 && BLOCK_SIZE == 131_072);
/// After this long packets of a ring are not awaited any more. A block may be the kernel's for a moment.
const PATIENCE_MS: u64 = 1000;

/// Lets a socket receive nothing.
pub(in crate::af_packet) fn refuse_all(socket: &OwnedFd) -> io::Result<()> {
    let nothing = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
    sys::attach_filter(socket, &[nothing])
}

/// Lets a socket receive what is a queue's.
fn admit_again(socket: &OwnedFd, parted: bool) {
    if parted && sys::attach_filter(socket, &sort::program(Part::Rest)).is_ok() {
        return;
    }
    sys::detach_filter(socket);
}

/// What an earlier process left of a device.
pub(in crate::af_packet) fn left(shared: &Shared) -> Older {
    let socket = shared.kept(format_args!("{HOLD}")).take();
    let socket = socket.filter(|socket| bound_to(socket) == Some(shared.watch.bound()));
    Older { waits: socket.is_some(), socket }
}

/// A queue's socket of an earlier process, if it is fit for this one.
pub(super) fn adopt(
    shared: &Shared,
    options: &Options,
    ifindex: u32,
    socket: Option<OwnedFd>,
    blocks: usize,
) -> Option<Ring> {
    let socket = socket.filter(|socket| bound_to(socket) == Some(ifindex))?;
    let is = |option, wanted: i32| {
        sys::get_option::<i32>(&socket, libc::SOL_PACKET, option).is_ok_and(|found| found == wanted)
    };
    if !is(PACKET_VERSION, TPACKET_V3) || !is(PACKET_VNET_HDR, 1) {
        return None;
    }
    // A ring of another size cannot be mapped.
    let map = Map::new(&socket, BLOCK_SIZE * blocks, 0).ok()?;
    let _ = sys::set_option(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &i32::from(!options.outbound));
    if shared.queues > 1 || shared.group.is_some() {
        join_again(shared, &socket, ifindex)?;
    }
    let socket = Arc::new(socket);
    shared.admit(&socket).ok()?;
    let mut ring = Ring::of(socket, map, blocks);
    ring.block = ring.oldest();
    Some(ring)
}

/// Takes note of the group of sockets that this one is in. One of another group than the queues before would receive their packets, too.
fn join_again(shared: &Shared, socket: &OwnedFd, ifindex: u32) -> Option<()> {
    let number: u32 = sys::get_option(socket, libc::SOL_PACKET, PACKET_FANOUT).ok()?;
    if number == 0 {
        return join_fanout(shared, socket, ifindex).ok();
    }
    if shared.group.is_some() {
        return Some(());
    }
    let mut group = lock(&shared.fanout);
    (*group.get_or_insert(number as u16) == number as u16).then_some(())
}

/// Makes the further ring of a socket, which receives nothing yet: to bind it takes the kernel milliseconds.
fn further(socket: OwnedFd, options: &Options, ifindex: u32) -> io::Result<OwnedFd> {
    drop(Ring::prepare(&socket, options, BLOCKS, TIMEOUT_MS)?);
    refuse_all(&socket)?;
    bind(&socket, libc::ETH_P_ALL as u16, ifindex)?;
    Ok(socket)
}

/// The same for a device that has no packet sockets.
pub(crate) fn hold_for(keeper: &dyn Keeper, device: &str, ifindex: u32, parted: bool) {
    let made = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
    if let Ok(socket) = made.and_then(|socket| further(socket, &Options::default(), ifindex)) {
        keeper.keep(&name(device, HOLD), socket.as_fd());
        admit_again(&socket, parted);
    }
}

/// Packets that an earlier process has left for such a device, which receives by other ways from now on.
pub(crate) fn left_for(
    keeper: &dyn Keeper,
    device: &str,
    ifindex: u32,
    doorbell: &Doorbell,
) -> Option<Reader> {
    let socket = keeper.take(&name(device, HOLD)).filter(|socket| bound_to(socket) == Some(ifindex))?;
    let _ = refuse_all(&socket);
    Reader::of(socket, None, doorbell)
}

/// This process ends: packets wait in a further ring from now on.
pub(in crate::af_packet) fn hold(shared: &Shared) {
    // The other routers of a group receive what this one does not.
    if shared.keeper.is_none() || shared.group.is_some() || shared.is_urgent {
        return;
    }
    let mut sockets = lock(&shared.sockets);
    sockets.all.retain(|socket| socket.strong_count() > 0);
    let ifindex = shared.watch.bound();
    if sockets.all.is_empty() || lock(&shared.older).waits {
        return;
    }
    let options = lock(&shared.options).clone();
    let made = shared.socket(0, ifindex).and_then(|socket| further(socket, &options, ifindex));
    let Ok(socket) = made else { return };
    shared.leave(HOLD, &socket);
    // Between the two, a packet comes twice.
    admit_again(&socket, sockets.parted);
    for queue in sockets.all.iter().filter_map(std::sync::Weak::upgrade) {
        let _ = refuse_all(&queue);
    }
    drop(sockets);
    // The interface goes on to receive the same, and the kernel to see the same, until the next process says so.
    if let Some(keeper) = &shared.keeper {
        shared.promiscuous.leave(&**keeper, shared.watch.name());
    }
    if let Some(swallow) = &lock(&shared.holds).swallow {
        shared.leave("swallow", swallow);
    }
}

impl Ring {
    /// The number of a block: the kernel counts those that it begins.
    fn sequence(&self, block: usize) -> u64 {
        // SAFETY: inside the mapping and aligned; the kernel writes it, so it is only touched atomically.
        unsafe { AtomicU64::from_ptr(self.map.at(block * BLOCK_SIZE + 24).cast()) }.load(Ordering::Acquire)
    }

    /// The block to go on with: the oldest that nobody has read, or else the one that the kernel fills.
    fn oldest(&self) -> usize {
        let is_ours = |block: usize| {
            // SAFETY: as above.
            let status = unsafe { AtomicU32::from_ptr(self.map.at(block * BLOCK_SIZE + 8).cast()) };
            status.load(Ordering::Acquire) & STATUS_USER != 0
        };
        let unread = (0..self.blocks).filter(|block| is_ours(*block));
        let oldest = unread.min_by_key(|block| self.sequence(*block));
        oldest.or((0..self.blocks).max_by_key(|block| self.sequence(*block))).unwrap_or(0)
    }

    /// Whether nothing is left in it, if it receives nothing any more.
    fn is_spent(&self) -> bool {
        // SAFETY: as above.
        let frames = unsafe { AtomicU32::from_ptr(self.map.at(self.block * BLOCK_SIZE + 12).cast()) };
        self.left == 0
            && self.status().load(Ordering::Acquire) & STATUS_USER == 0
            && frames.load(Ordering::Acquire) == 0
    }
}

/// Reads what arrived before this process had the device.
pub(crate) struct Reader {
    /// The queues that receive again when their own rings have been read, if they do not yet.
    shared: Option<Arc<Shared>>,
    ring: Ring,
    /// The queues receive again.
    open: bool,
    /// When the ring that is read now counts as read, on the coarse clock; 0 until the first packet is asked for.
    until_ms: u64,
}

impl Reader {
    /// For the first queue that is opened.
    pub(super) fn new(shared: &Arc<Shared>, doorbell: &Doorbell) -> Option<Reader> {
        let socket = lock(&shared.older).socket.take()?;
        let reader = Reader::of(socket, Some(shared.clone()), doorbell);
        if reader.is_none() {
            open_queues(shared);
        }
        reader
    }

    fn of(socket: OwnedFd, shared: Option<Arc<Shared>>, doorbell: &Doorbell) -> Option<Reader> {
        let map = Map::new(&socket, BLOCK_SIZE * BLOCKS, 0).ok()?;
        let mut ring = Ring::of(Arc::new(socket), map, BLOCKS);
        ring.block = ring.oldest();
        let _ = doorbell.listen(&ring.socket);
        Some(Reader { open: shared.is_none(), shared, ring, until_ms: 0 })
    }

    /// Delivers packets for a device that has no packet sockets. Returns whether that is all.
    #[cold]
    pub(crate) fn take_for(
        &mut self,
        (snaplen, headroom): (usize, usize),
        aliases: Option<&Aliases>,
        counters: &Counters,
        batch: &mut Batch,
        max: usize,
    ) -> bool {
        let options = Options { snaplen, headroom, ..Options::default() };
        let how = How { options: &options, filter: None, ethernet: true, aliases, counters };
        self.take(None, &how, batch, max)
    }

    fn is_over(&self, ring: Option<&Ring>) -> bool {
        ring.is_none_or(Ring::is_spent) || coarse_ms() > self.until_ms
    }

    /// Delivers what is there, after what is left in the queue's own ring. Returns whether that is all.
    #[cold]
    pub(super) fn take(
        &mut self,
        mut own: Option<&mut Ring>,
        how: &How<'_>,
        batch: &mut Batch,
        max: usize,
    ) -> bool {
        let before = batch.len();
        if self.until_ms == 0 {
            self.until_ms = coarse_ms() + PATIENCE_MS;
        }
        if !self.open {
            if let Some(own) = own.as_deref_mut() {
                take(own, how, batch, max);
            }
            if !self.is_over(own.as_deref()) {
                return false;
            }
            self.open();
        }
        take(&mut self.ring, how, batch, max.saturating_sub(batch.len() - before));
        self.is_over(Some(&self.ring))
    }

    /// Lets the queues receive, and this ring no more.
    fn open(&mut self) {
        self.shared.iter().for_each(|shared| open_queues(shared));
        let _ = refuse_all(&self.ring.socket);
        (self.open, self.until_ms) = (true, coarse_ms() + PATIENCE_MS);
    }

    pub(crate) fn end(&self, doorbell: &Doorbell) {
        // Its socket stays open as long as somebody keeps it.
        doorbell.ignore(&self.ring.socket);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if !self.open {
            self.open();
        }
    }
}

fn open_queues(shared: &Shared) {
    let sockets = lock(&shared.sockets);
    lock(&shared.older).waits = false;
    for socket in sockets.all.iter().filter_map(std::sync::Weak::upgrade) {
        admit_again(&socket, sockets.parted);
    }
}
