// SPDX-License-Identifier: MIT OR Apache-2.0
//! One AF_XDP socket: registration, rings, binding, and an orderly end.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libc::{sockaddr_xdp, xdp_desc, xdp_mmap_offsets, xdp_umem_reg};

use super::rings::{Consumer, Producer};
use super::umem::{Lent, Shape};
use crate::opener::{self, Call};
use crate::sys::{self, check};

/// How many frames one system call may send in copy mode (Linux 6.17; the default is 32).
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
/// How long the kernel may take to end a former user of a queue: it does so in the background, and on a busy machine takes seconds.
const RELEASE_PATIENCE: Duration = Duration::from_secs(5);

/// How a socket is to be bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Binding {
    pub(super) zero_copy: bool,
    /// Frames may lie in several buffers.
    pub(super) multi_buffer: bool,
}

/// What all sockets of a device have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) shape: Shape,
    pub(super) ring: u32,
    /// Headroom in bytes beyond the kernel's own.
    pub(super) headroom: u32,
    pub(super) busy_poll_us: Option<u32>,
}

/// The socket itself. Both halves hold it; when the last lets go, it is closed and its frames return.
pub(super) struct Core {
    pub(super) ifindex: u32,
    pub(super) queue: u32,
    pub(super) binding: Binding,
    /// The interface has gone.
    dead: AtomicBool,
    fd: Option<OwnedFd>,
    /// Frames that the halves left behind.
    remains: Mutex<Vec<Lent>>,
}

/// The receiving half.
pub(super) struct RxHalf {
    pub(super) rx: Consumer<xdp_desc>,
    pub(super) fill: Producer<u64>,
    pub(super) lent: Lent,
    // Last, so that the rings are unmapped before the socket closes.
    pub(super) core: Arc<Core>,
}

/// The transmitting half.
pub(super) struct TxHalf {
    pub(super) tx: Producer<xdp_desc>,
    pub(super) completion: Consumer<u64>,
    pub(super) lent: Lent,
    // Last, as in `RxHalf`.
    pub(super) core: Arc<Core>,
}

/// Makes a socket and binds it. `base` is a bound socket of the same device whose registration it shares.
pub(super) fn open(
    setup: &Setup,
    ifindex: u32,
    queue: u32,
    binding: Binding,
    base: Option<&Core>,
) -> io::Result<(RxHalf, TxHalf)> {
    let fd = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0)?;
    if base.is_none() {
        register(&fd, setup)?;
    }
    let set = |name, value: u32| sys::set_option(&fd, libc::SOL_XDP, name, &value);
    set(libc::XDP_UMEM_FILL_RING, setup.ring)?;
    set(libc::XDP_UMEM_COMPLETION_RING, setup.ring)?;
    set(libc::XDP_RX_RING, setup.ring)?;
    set(libc::XDP_TX_RING, setup.ring)?;
    let at = offsets(&fd)?;
    let rx = Consumer::map(&fd, setup.ring, libc::XDP_PGOFF_RX_RING, &at.rx)?;
    let tx = Producer::map(&fd, setup.ring, libc::XDP_PGOFF_TX_RING, &at.tx)?;
    let fill = Producer::map(&fd, setup.ring, libc::XDP_UMEM_PGOFF_FILL_RING as i64, &at.fr)?;
    let completion = Consumer::map(&fd, setup.ring, libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64, &at.cr)?;
    bind(&fd, ifindex, queue, binding, base)?;
    if !binding.zero_copy {
        // Older kernels keep their default, and take more calls.
        let _ = set(XDP_MAX_TX_SKB_BUDGET, setup.ring.min(256));
    }
    if let Some(us) = setup.busy_poll_us {
        opener::ask_to(Call::BusyPoll, [us, 0, 0, 0], &[], &[fd.as_fd()])
            .unwrap_or_else(|| busy_poll(&fd, us))?;
    }
    let core = Arc::new(Core {
        ifindex,
        queue,
        binding,
        dead: AtomicBool::new(false),
        fd: Some(fd),
        remains: Mutex::new(Vec::with_capacity(2)),
    });
    let lent = || Lent::none(setup.shape.frames);
    Ok((RxHalf { core: core.clone(), rx, fill, lent: lent() }, TxHalf { core, tx, completion, lent: lent() }))
}

fn register(fd: &OwnedFd, setup: &Setup) -> io::Result<()> {
    let registration = xdp_umem_reg {
        addr: setup.shape.start,
        len: setup.shape.len,
        chunk_size: setup.shape.chunk as u32,
        headroom: setup.headroom,
        flags: 0,
        tx_metadata_len: 0,
    };
    sys::set_option(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)
}

fn offsets(fd: &OwnedFd) -> io::Result<xdp_mmap_offsets> {
    let mut at = MaybeUninit::<xdp_mmap_offsets>::zeroed();
    let mut len = size_of::<xdp_mmap_offsets>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes of a structure of integers.
    let at = unsafe {
        check(libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            libc::XDP_MMAP_OFFSETS,
            at.as_mut_ptr().cast(),
            &mut len,
        ))?;
        at.assume_init()
    };
    if (len as usize) < size_of::<xdp_mmap_offsets>() {
        // Linux before 5.4 has no flags word, hence no need-wakeup.
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    Ok(at)
}

fn bind(fd: &OwnedFd, ifindex: u32, queue: u32, binding: Binding, base: Option<&Core>) -> io::Result<()> {
    let mut flags = libc::XDP_USE_NEED_WAKEUP;
    flags |= if binding.zero_copy { libc::XDP_ZEROCOPY } else { libc::XDP_COPY };
    if binding.multi_buffer {
        flags |= libc::XDP_USE_SG;
    }
    let mut address = sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: ifindex,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    if let Some(base) = base {
        // Everything else is taken over from the base.
        address.sxdp_flags = libc::XDP_SHARED_UMEM;
        address.sxdp_shared_umem_fd = base.fd().as_raw_fd() as u32;
    }
    let begin = Instant::now();
    loop {
        // SAFETY: the kernel reads the address.
        let result = check(unsafe {
            libc::bind(
                fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<sockaddr_xdp>() as libc::socklen_t,
            )
        });
        match result {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && begin.elapsed() < RELEASE_PATIENCE => {
                std::thread::park_timeout(Duration::from_millis(5));
            }
            result => return result.map(drop),
        }
    }
}

pub(crate) fn busy_poll(fd: &OwnedFd, us: u32) -> io::Result<()> {
    const SO_PREFER_BUSY_POLL: i32 = 69;
    const SO_BUSY_POLL_BUDGET: i32 = 70;
    sys::set_option(fd, libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, &1i32)?;
    sys::set_option(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &(us as i32))?;
    sys::set_option(fd, libc::SOL_SOCKET, SO_BUSY_POLL_BUDGET, &64i32)
}

impl Core {
    pub(super) fn fd(&self) -> &OwnedFd {
        self.fd.as_ref().expect("the socket is open until the last half lets go")
    }

    /// Whether the interface that it was bound to has gone; the kernel reports this once, to the first caller.
    pub(super) fn dead(&self) -> bool {
        if sys::take_error(self.fd()).is_some_and(|e| e.raw_os_error() == Some(libc::ENETDOWN)) {
            self.dead.store(true, Ordering::Relaxed);
        }
        self.dead.load(Ordering::Relaxed)
    }

    /// Asks the kernel to look at the receive side.
    pub(super) fn wake_rx(&self) {
        let none = std::ptr::null_mut();
        // SAFETY: a receive of no bytes.
        unsafe {
            libc::recvfrom(self.fd().as_raw_fd(), none, 0, libc::MSG_DONTWAIT, none.cast(), none.cast())
        };
    }

    /// Asks the kernel to send what is in the ring.
    pub(super) fn wake_tx(&self) -> io::Result<()> {
        let none = std::ptr::null_mut();
        // SAFETY: a send of no bytes.
        let sent =
            unsafe { libc::sendto(self.fd().as_raw_fd(), none, 0, libc::MSG_DONTWAIT, none.cast(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn leave(&self, lent: &mut Lent) {
        let lent = std::mem::replace(lent, Lent::none(0));
        self.remains.lock().unwrap_or_else(PoisonError::into_inner).push(lent);
    }
}

impl Drop for RxHalf {
    fn drop(&mut self) {
        self.core.leave(&mut self.lent);
    }
}

impl Drop for TxHalf {
    fn drop(&mut self) {
        // Let what was handed over go out: its frames belong to the device until then.
        let begin = Instant::now();
        while self.lent.count() > 0 && begin.elapsed() < Duration::from_millis(50) {
            if self.tx.pending() > 0
                && self.core.wake_tx().is_err_and(|e| e.raw_os_error() != Some(libc::EAGAIN))
            {
                break;
            }
            let shape = Shape::of_memory();
            for _ in 0..self.completion.ready(u32::MAX) {
                let (index, _) = shape.place(self.completion.take());
                drop(self.lent.back(index, 0, 0));
            }
            self.completion.release();
            if self.lent.count() > 0 {
                std::thread::yield_now();
            }
        }
        self.core.leave(&mut self.lent);
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // The halves unmapped their rings before this ran; a mapped ring would keep the socket, and the queue, busy.
        drop(self.fd.take());
        // In copy mode the kernel has stopped using the frames when `close` returns. With zero-copy the device lets
        // go of them in the background, after which the queue can be bound again.
        if self.binding.zero_copy && !settled(self.ifindex, self.queue) {
            // Better a lost frame than one that a device writes into while somebody else uses it.
            return;
        }
        for lent in self.remains.get_mut().unwrap_or_else(PoisonError::into_inner) {
            lent.all_back();
        }
    }
}

/// Waits until nobody holds the queue, which a trial binding checks.
fn settled(ifindex: u32, queue: u32) -> bool {
    let shape = Shape::of_memory();
    let setup = Setup { shape, ring: 64, headroom: 0, busy_poll_us: None };
    let binding = Binding { zero_copy: false, multi_buffer: false };
    match open_bare(&setup, ifindex, queue, binding) {
        Ok(()) => true,
        // The device itself has gone, and its DMA with it.
        Err(e) => matches!(e.raw_os_error(), Some(libc::ENODEV | libc::ENETDOWN)),
    }
}

/// Binds and closes, waiting for a busy queue as [`bind`] does.
fn open_bare(setup: &Setup, ifindex: u32, queue: u32, binding: Binding) -> io::Result<()> {
    let fd = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0)?;
    register(&fd, setup)?;
    for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING] {
        sys::set_option(&fd, libc::SOL_XDP, ring, &setup.ring)?;
    }
    bind(&fd, ifindex, queue, binding, None)
}
