// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that measure traffic: timestamps, and aggregates of packets.

mod adjust_timestamp;
mod aggregate_counter;
mod aggregate_filter;
mod aggregate_first;
mod aggregate_ip;
mod aggregate_ip_addr_pair;
mod aggregate_ip_flows;
mod aggregate_last;
mod aggregate_length;
mod aggregate_packet_counter;
mod aggregate_paint;
mod calls;
mod erase_ip_payload;
mod flows;
mod notices;
mod set_timestamp_delta;
mod store_timestamp;
mod time_filter;
mod time_range;
mod time_sorted_sched;
mod timestamp_accum;
mod trace_info;

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[
    adjust_timestamp::CLASS,
    aggregate_counter::CLASS,
    aggregate_filter::CLASS,
    aggregate_first::CLASS,
    aggregate_ip::CLASS,
    aggregate_ip_addr_pair::CLASS,
    aggregate_ip_flows::CLASS,
    aggregate_last::CLASS,
    aggregate_length::CLASS,
    aggregate_packet_counter::CLASS,
    aggregate_paint::CLASS,
    erase_ip_payload::CLASS,
    set_timestamp_delta::CLASS,
    store_timestamp::CLASS,
    time_filter::CLASS,
    time_range::CLASS,
    time_sorted_sched::CLASS,
    timestamp_accum::CLASS,
];
