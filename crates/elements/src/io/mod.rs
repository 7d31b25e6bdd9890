// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that make packets or exchange them with the world.

pub(crate) mod addresses;
mod control_traffic;
mod device;
mod duplex;
pub(crate) mod files;
mod from_device;
pub(crate) mod from_dump;
mod from_ip_summary_dump;
mod from_plane;
mod infinite_source;
mod kernel_tap;
pub(crate) mod links;
mod memory_port;
pub(crate) mod mtu;
mod pace;
mod punt;
mod raw_socket;
pub mod summary;
#[cfg(test)]
pub(crate) mod testing;
mod to_device;
mod to_dump;
mod to_ip_summary_dump;
mod to_plane;

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[
    control_traffic::CLASS,
    from_device::FROM_DEVICE,
    from_device::POLL_DEVICE,
    from_dump::CLASS,
    from_ip_summary_dump::CLASS,
    from_plane::CLASS,
    infinite_source::CLASS,
    kernel_tap::FROM_HOST,
    kernel_tap::KERNEL_TAP,
    kernel_tap::KERNEL_TUN,
    kernel_tap::TO_HOST,
    memory_port::CLASS,
    punt::CLASS,
    raw_socket::CLASS,
    to_device::CLASS,
    to_dump::CLASS,
    to_ip_summary_dump::CLASS,
    to_plane::CLASS,
];
