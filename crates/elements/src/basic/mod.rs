// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that work on any packet.

mod align;
mod average_counter;
mod block;
mod bypass;
mod check_length;
pub(crate) mod check_paint;
mod chosen;
mod clipboard;
mod counter;
mod crc32;
mod discard;
mod hub;
mod idle;
mod information;
mod input_switch;
mod mark_mac_header;
mod message;
mod null;
mod pad;
pub(crate) mod paint;
mod paint_switch;
pub(crate) mod paint_tee;
mod print;
mod pull_switch;
mod pull_tee;
mod random_bit_errors;
mod random_sample;
mod resize;
mod schedule_info;
mod set_anno_byte;
mod set_packet_type;
mod set_timestamp;
mod spread;
mod store_data;
pub(crate) mod strip;
mod strip_to_network_header;
pub(crate) mod suppressor;
mod switch;
mod tee;
mod timed_sink;
mod truncate;
mod unstrip;
mod work;

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[
    align::CLASS,
    average_counter::CLASS,
    block::CLASS,
    bypass::CLASS,
    check_length::CLASS,
    check_paint::CLASS,
    clipboard::CLASS,
    counter::CLASS,
    crc32::CHECK,
    crc32::SET,
    discard::CLASS,
    discard::SNIFFERS,
    hub::CLASS,
    idle::IDLE,
    idle::SIMPLE_IDLE,
    information::ADDRESS,
    information::ALIGNMENT,
    information::ANNOTATION,
    information::CLICKY,
    information::IP_NAME,
    information::PORT,
    input_switch::CLASS,
    mark_mac_header::CLASS,
    message::CLASS,
    null::NULL,
    null::PULL_NULL,
    null::PUSH_NULL,
    pad::CLASS,
    paint::CLASS,
    paint_switch::CLASS,
    paint_tee::CLASS,
    print::CLASS,
    pull_switch::PULL_SWITCH,
    pull_switch::SIMPLE,
    pull_switch::STATIC,
    pull_tee::CLASS,
    random_bit_errors::CLASS,
    random_sample::CLASS,
    resize::CLASS,
    schedule_info::CLASS,
    set_anno_byte::CLASS,
    set_packet_type::CLASS,
    set_timestamp::CLASS,
    spread::HASH,
    spread::RANDOM,
    spread::ROUND_ROBIN,
    store_data::CLASS,
    strip::CLASS,
    strip_to_network_header::CLASS,
    switch::STATIC,
    suppressor::CLASS,
    switch::SWITCH,
    tee::CLASS,
    timed_sink::CLASS,
    truncate::CLASS,
    unstrip::CLASS,
    work::CLASS,
];
