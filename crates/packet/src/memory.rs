// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process's packet memory.
//!
//! Two mappings: the buffers, which devices may map and read, and the descriptors, 128 bytes each, dense and apart
//! from the buffers. Were a descriptor to lie at the head of its 2 KiB buffer, a batch's descriptors would all fall
//! on two sets of a first-level cache (stride 2048 in a 4096-byte way) and evict each other.
//!
//! ```text
//! buffers      | small 0 | small 1 | ... | jumbo 0        | jumbo 1        | ...
//! descriptors  |s0|s1|...|j0|j1|...           one 64-byte line hot, one cold
//! ```

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::OnceLock;

use crate::packet::{Meta, Packet};
use crate::pool::Spill;

/// Bytes in a jumbo frame: a 9216-byte MTU with its headers and headroom.
pub(crate) const JUMBO_SIZE: usize = 16 * 1024;

/// How much packet memory to reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Ordinary frames, rounded up to a multiple of the pool's block (64).
    pub frames: usize,
    /// Bytes of an ordinary frame: a power of two from 2048 to 16384.
    pub frame_size: usize,
    /// Jumbo frames of 16 KiB, rounded up too. Untouched frames cost address space, not memory.
    pub jumbo_frames: usize,
    /// The buffers lie in a memory file, which other processes can map for reading ([`Memory::file`]).
    pub shared: bool,
}

impl Default for Config {
    fn default() -> Self {
        // Miri, which checks every access, takes its time over each frame.
        let (frames, jumbo_frames) = if cfg!(miri) { (1024, 64) } else { (32 * 1024, 1024) };
        Config { frames, frame_size: 2048, jumbo_frames, shared: false }
    }
}

/// Why packet memory could not be reserved.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The kernel refused the mapping.
    #[error(
        "cannot reserve {bytes} bytes of packet memory: {source}; lower --frames, or raise the memory limit (ulimit -v)"
    )]
    Map {
        /// What was asked for.
        bytes: usize,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The frame size is not one that devices accept.
    #[error("frame size {0} is not a power of two from 2048 to 16384")]
    FrameSize(usize),
    /// No frames were asked for.
    #[error("packet memory needs at least 64 frames, not {0}")]
    TooFew(usize),
    /// Packet memory exists already with another shape.
    #[error("packet memory is already reserved as {existing:?}; it cannot become {wanted:?}")]
    Reserved {
        /// The shape in force.
        existing: Config,
        /// The shape asked for.
        wanted: Config,
    },
}

/// What backs the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Reserved huge pages (`vm.nr_hugepages`).
    Huge,
    /// Ordinary pages, with a request for transparent huge pages.
    Ordinary,
}

/// Where the frames are at this moment; exact only while no worker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Every frame of the memory, ordinary and jumbo.
    pub total: usize,
    /// Frames in pools.
    pub free: usize,
}

impl Usage {
    /// Frames held by packets: in batches, queues, rings and elements.
    pub fn in_use(&self) -> usize {
        self.total - self.free
    }
}

/// The packet memory; there is one in a process, from [`Memory::reserve`] or on first use.
#[derive(Debug)]
pub struct Memory {
    config: Config,
    pages: Pages,
    buffers: NonNull<u8>,
    bytes: usize,
    /// A descriptor of the buffers for reading only, if they are shared.
    file: Option<OwnedFd>,
    metas: NonNull<Meta>,
    pub(crate) small: Spill,
    pub(crate) jumbo: Spill,
}

// SAFETY: the mappings live as long as the process. A descriptor or buffer is reached only through the one `Packet`
// that owns it or through `Spill`, whose queue hands each free frame to one taker.
unsafe impl Send for Memory {}
// SAFETY: as above; `&Memory` gives no access to a frame.
unsafe impl Sync for Memory {}

static MEMORY: OnceLock<Memory> = OnceLock::new();

/// The process's packet memory, reserved with the defaults when nobody did so before.
///
/// # Panics
/// When the default reservation is refused: a program that wants to report this calls [`Memory::reserve`] first.
pub fn memory() -> &'static Memory {
    MEMORY.get_or_init(|| Memory::build(Config::default()).expect("default packet memory"))
}

impl Memory {
    /// Reserves the packet memory, or confirms that it exists in this shape.
    ///
    /// # Errors
    /// The kernel refuses, the shape is impossible, or the memory exists in another shape.
    pub fn reserve(config: Config) -> Result<&'static Memory, MemoryError> {
        if let Some(memory) = MEMORY.get() {
            return if memory.config == config {
                Ok(memory)
            } else {
                Err(MemoryError::Reserved { existing: memory.config, wanted: config })
            };
        }
        let built = Memory::build(config)?;
        Ok(MEMORY.get_or_init(|| built))
    }

    fn build(config: Config) -> Result<Memory, MemoryError> {
        if !config.frame_size.is_power_of_two() || !(2048..=JUMBO_SIZE).contains(&config.frame_size) {
            return Err(MemoryError::FrameSize(config.frame_size));
        }
        if config.frames < 64 {
            return Err(MemoryError::TooFew(config.frames));
        }
        let frames = config.frames.next_multiple_of(64);
        let jumbo = config.jumbo_frames.next_multiple_of(64);
        let bytes = frames * config.frame_size + jumbo * JUMBO_SIZE;
        let (buffers, pages, file) = if config.shared { share_buffers(bytes)? } else { map_buffers(bytes)? };
        let metas = map((frames + jumbo) * size_of::<Meta>(), 0)
            .map_err(|source| MemoryError::Map { bytes: (frames + jumbo) * size_of::<Meta>(), source })?
            .cast::<Meta>();
        let memory = Memory {
            config,
            pages,
            buffers,
            bytes,
            file,
            metas,
            small: Spill::new(frames, true),
            jumbo: Spill::new(jumbo, false),
        };
        // SAFETY: `metas` has room for `frames + jumbo` descriptors and `buffers` for the frames that they get
        // to own; nobody else knows them yet.
        unsafe {
            memory.small.fill(metas, buffers, frames, config.frame_size);
            memory.jumbo.fill(metas.add(frames), buffers.add(frames * config.frame_size), jumbo, JUMBO_SIZE);
        }
        Ok(memory)
    }

    /// The shape asked for at reservation.
    pub fn config(&self) -> Config {
        self.config
    }

    /// What backs the buffers.
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// Bytes of an ordinary frame.
    pub fn frame_size(&self) -> usize {
        self.config.frame_size
    }

    /// First byte and length of the region, for devices that map it (AF_XDP UMEM: ordinary frames only come first,
    /// jumbo frames follow).
    pub fn region(&self) -> (NonNull<u8>, usize) {
        (self.buffers, self.bytes)
    }

    /// The memory file that holds the region, if it is shared: sealed against any change of size, and opened for reading only.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// Where a packet's bytes lie in the region; `None` for one from the heap.
    #[inline]
    pub fn offset_of(&self, packet: &Packet) -> Option<usize> {
        let offset = (packet.as_ptr() as usize).checked_sub(self.buffers.as_ptr() as usize)?;
        (offset + packet.len() <= self.bytes).then_some(offset)
    }

    /// Ordinary frames in the region; frame `i` begins at byte `i * frame_size`.
    pub fn frames(&self) -> usize {
        self.config.frames.next_multiple_of(64)
    }

    /// Counts frames; exact only while no worker runs.
    pub fn usage(&self) -> Usage {
        let (small_total, small_free) = self.small.usage();
        let (jumbo_total, jumbo_free) = self.jumbo.usage();
        Usage { total: small_total + jumbo_total, free: small_free + jumbo_free }
    }

    /// The descriptor of ordinary frame `index`.
    pub(crate) fn meta(&self, index: usize) -> NonNull<Meta> {
        assert!(index < self.frames(), "frame {index} is outside packet memory");
        // SAFETY: the index is inside the mapping.
        unsafe { self.metas.add(index) }
    }

    /// The buffer of an ordinary frame.
    pub(crate) fn buffer(&self, meta: NonNull<Meta>) -> *mut u8 {
        self.buffers.as_ptr().wrapping_add(self.index(meta) * self.config.frame_size)
    }

    /// Index of an ordinary frame's descriptor.
    pub(crate) fn index(&self, meta: NonNull<Meta>) -> usize {
        (meta.as_ptr() as usize - self.metas.as_ptr() as usize) / size_of::<Meta>()
    }
}

const HUGE: usize = 2 << 20;

/// Mapped buffers, what backs them, and a descriptor for others if they are shared.
type Buffers = (NonNull<u8>, Pages, Option<OwnedFd>);

/// Maps the buffers, from huge pages when enough are reserved.
fn map_buffers(bytes: usize) -> Result<Buffers, MemoryError> {
    if cfg!(miri) {
        // It knows plain mappings only.
        let buffers = map(bytes, 0).map_err(|source| MemoryError::Map { bytes, source })?;
        return Ok((buffers, Pages::Ordinary, None));
    }
    if let Ok(buffers) = map(bytes.next_multiple_of(HUGE), libc::MAP_HUGETLB) {
        return Ok((buffers, Pages::Huge, None));
    }
    let buffers = map(bytes, libc::MAP_NORESERVE).map_err(|source| MemoryError::Map { bytes, source })?;
    // SAFETY: advice on a mapping of our own; a refusal costs only speed.
    unsafe { libc::madvise(buffers.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
    Ok((buffers, Pages::Ordinary, None))
}

/// The same in a memory file, of huge pages when enough are reserved.
fn share_buffers(bytes: usize) -> Result<Buffers, MemoryError> {
    if let Ok((buffers, file)) = map_file(bytes.next_multiple_of(HUGE), libc::MFD_HUGETLB) {
        return Ok((buffers, Pages::Huge, Some(file)));
    }
    let (buffers, file) = map_file(bytes, 0).map_err(|source| MemoryError::Map { bytes, source })?;
    // SAFETY: advice on a mapping of our own; a refusal costs only speed.
    unsafe { libc::madvise(buffers.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
    Ok((buffers, Pages::Ordinary, Some(file)))
}

/// Maps a new memory file of this size, which nobody can change any more. The descriptor is for reading only.
fn map_file(bytes: usize, flags: libc::c_uint) -> std::io::Result<(NonNull<u8>, OwnedFd)> {
    let check = |result: i32| if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) };
    let flags = flags | libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name ends with a zero, and the descriptor is fresh and ours alone.
    let file = unsafe { OwnedFd::from_raw_fd(check(libc::memfd_create(c"junctor-frames".as_ptr(), flags))?) };
    let length = libc::off_t::try_from(bytes).map_err(std::io::Error::other)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: these calls touch no memory of ours.
    unsafe {
        // Others may not open it again by /proc to write to it.
        check(libc::fchmod(file.as_raw_fd(), 0o600))?;
        check(libc::ftruncate(file.as_raw_fd(), length))?;
        check(libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals))?;
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // Huge pages that are not reserved now would be missing when they are touched.
    let lazily = if flags & libc::MFD_HUGETLB == 0 { libc::MAP_NORESERVE } else { 0 };
    // SAFETY: a mapping at an address of the kernel's choice touches no memory of ours.
    let address = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED | lazily, file.as_raw_fd(), 0)
    };
    if address == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    let readable = std::fs::File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let address = NonNull::new(address.cast()).expect("mmap succeeded with a non-null address");
    Ok((address, readable.into()))
}

fn map(bytes: usize, flags: i32) -> std::io::Result<NonNull<u8>> {
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches no memory of ours.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes.max(4096),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    Ok(NonNull::new(address.cast()).expect("mmap succeeded with a non-null address"))
}
