// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the fuzz target `feed_batch` and its corpus' replay share. The first byte says what the rest is: `R` an answer of a user plane, anything
//! else a batch of a control plane.

use junctor_feed::{Header, Reply, Updates};

/// Decodes it; says how many updates or answers there were, or what is wrong.
pub fn check(data: &[u8]) -> Result<usize, String> {
    let Some((kind, bytes)) = data.split_first() else { return Ok(0) };
    if *kind == b'R' {
        let reply = Reply::decode(bytes).map_err(|why| why.to_string())?;
        assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
        return Ok(1);
    }
    let (Header { sequence }, updates) = Updates::new(bytes).map_err(|why| why.to_string())?;
    let updates = updates.collect::<Result<Vec<_>, _>>().map_err(|why| why.to_string())?;
    let mut again = Vec::new();
    Header { sequence }.encode(&mut again);
    updates.iter().for_each(|update| update.encode(&mut again));
    let (header, read) = Updates::new(&again).expect("our own");
    assert_eq!(header.sequence, sequence);
    assert_eq!(read.collect::<Result<Vec<_>, _>>().as_ref(), Ok(&updates));
    Ok(updates.len())
}
