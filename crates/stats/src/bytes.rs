// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers and texts as bytes, little endian, and back. Nothing that is read is believed.

/// What was to be read when the bytes made no sense.
pub(crate) type Bad = &'static str;

/// Writes.
#[derive(Debug, Default)]
pub(crate) struct Put(pub(crate) Vec<u8>);

impl Put {
    pub(crate) fn u32(&mut self, value: usize) {
        let value = u32::try_from(value).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.u32(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }
}

/// Reads.
pub(crate) struct Take<'a>(pub(crate) &'a [u8]);

impl<'a> Take<'a> {
    fn bytes(&mut self, n: usize, what: Bad) -> Result<&'a [u8], Bad> {
        let (bytes, rest) = self.0.split_at_checked(n).ok_or(what)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn u32(&mut self, what: Bad) -> Result<u32, Bad> {
        let bytes = self.bytes(4, what)?.try_into().map_err(|_| what)?;
        Ok(u32::from_le_bytes(bytes))
    }

    pub(crate) fn u64(&mut self, what: Bad) -> Result<u64, Bad> {
        let bytes = self.bytes(8, what)?.try_into().map_err(|_| what)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// How many of things that take `each` bytes at least; no more than there can be.
    pub(crate) fn count(&mut self, each: usize, what: Bad) -> Result<usize, Bad> {
        let count = self.u32(what)? as usize;
        if count > self.0.len() / each { Err(what) } else { Ok(count) }
    }

    pub(crate) fn text(&mut self, what: Bad) -> Result<&'a str, Bad> {
        let length = self.count(1, what)?;
        std::str::from_utf8(self.bytes(length, what)?).map_err(|_| what)
    }
}
