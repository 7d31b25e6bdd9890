// SPDX-License-Identifier: MIT OR Apache-2.0
//! What operators may write: each handler of each class was looked at.

use std::collections::BTreeSet;

/// Handlers whose value names neither a file nor another handler. One that does belongs into `manage::FAR_REACHING`.
const NEAR: &str = "
active add add_policy add_sa addr addresses adjust_sa ageing anno_level announce bandwidth banner broadcast burst burstsize
byte_steps capacity check clear color config cost count counts_pdf ctrl data datasize delay delete delete_policy delete_sa down
dport drop_prob dscp dst ecn enable end error_kind ether ethertype etht extend_interval filepos flowlabel flush flush_policies
flush_sas forget freeze goto headroom insert interval ipaddr latency length limit link mask max_p max_thresh memmax min_thresh
mtu native_vlan nbytes nexthop hopLimit p_bit_error path_mtu pattern pmtu priority rate reaggregate_counts remove remove_nexthop remove_peer
replace reset reset_counts reset_timing resync run sampling_prob scheduled seed set set_add set_flush set_peer set_remove sport
src start state step steps stop switch table thresh tickets time timeout up update_policy update_sa value vlan_id vlan_pcp
vlan_tci withdraw";

#[test]
fn every_handler_that_operators_may_write_was_looked_at() {
    let near: BTreeSet<&str> = NEAR.split_whitespace().collect();
    let mut unknown = BTreeSet::new();
    for class in conf::registry(false).iter() {
        for handler in class.handlers.iter().filter(|handler| handler.writable() && !handler.private) {
            // The same for each input or output, with its number.
            let name = handler.name.trim_end_matches(|c: char| c.is_ascii_digit());
            if !near.contains(name) && !manage::FAR_REACHING.contains(&handler.name) {
                unknown.insert(format!("{}.{}", class.name, handler.name));
            }
        }
    }
    assert!(unknown.is_empty(), "does their value name a file or a handler? {unknown:?}");
    assert!(manage::FAR_REACHING.iter().all(|name| !near.contains(name)));
}
