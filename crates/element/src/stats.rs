// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers that elements show all the time, by [`Statistics::stats`](crate::Statistics::stats).

/// How a number behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatKind {
    /// It only grows, until what it counts is replaced.
    Counter,
    /// It is what it is at the moment.
    Gauge,
}

/// What a number that an element reports means.
#[derive(Debug)]
pub struct Stat {
    /// Its name; stable.
    pub name: &'static str,
    /// How it behaves.
    pub kind: StatKind,
    /// In what it is measured.
    pub unit: &'static str,
    /// What it reports, in a sentence.
    pub text: &'static str,
}

macro_rules! stats {
    ($($name:ident $kind:ident $full:literal $unit:literal $text:literal;)*) => {
        $(#[doc = $text] pub static $name: Stat =
            Stat { name: $full, kind: StatKind::$kind, unit: $unit, text: $text };)*
    };
}

stats! {
    HELD Gauge "element.held" "packets" "Packets that the element holds.";
    QUEUE_LENGTH Gauge "queue.length" "packets" "Packets in the queue.";
    QUEUE_CAPACITY Gauge "queue.capacity" "packets" "Packets for which the queue has room.";
    QUEUE_HIGHWATER Gauge "queue.highwater" "packets" "The most packets that were in the queue at once.";
    TABLE_ENTRIES Gauge "table.entries" "entries" "Entries of the table.";
    TABLE_CAPACITY Gauge "table.capacity" "entries" "Entries for which the table has room.";
    TABLE_MEMORY Gauge "table.memory" "bytes" "Memory that the table takes.";
    DEVICE_PACKETS Counter "device.packets" "packets" "Packets that came from the device or went to it.";
    DEVICE_BYTES Counter "device.bytes" "bytes" "Bytes that came from the device or went to it.";
    DEVICE_MISSED Counter "device.missed" "packets" "Packets that the device or the kernel lost before they were fetched.";
    DEVICE_COMPLETED Counter "device.checksums_completed" "packets" "Packets whose checksum the sender had left to hardware, and which were completed.";
    DEVICE_NO_MEMORY Counter "device.no_memory" "times" "Times for which there was no free frame to receive into.";
}
