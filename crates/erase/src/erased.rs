// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys of other crates that do not erase themselves.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Deref;

use zeroize::Zeroize as _;

/// A value whose own bytes are overwritten with zeros when it is dropped. What it points to is not, and neither are copies that were left where it was moved
/// from: make it where it stays.
///
/// ```
/// # use junctor_erase::Erased;
/// let key = Erased::new([7u8; 32]);
/// assert_eq!(key.len(), 32);
/// ```
pub struct Erased<T>(MaybeUninit<T>);

impl<T> Erased<T> {
    /// A value that is erased when it is dropped.
    #[inline]
    pub fn new(value: T) -> Self {
        Self(MaybeUninit::new(value))
    }
}

impl<T> Deref for Erased<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `new` is the only constructor, and only `drop` takes the value away.
        unsafe { self.0.assume_init_ref() }
    }
}

impl<T> Drop for Erased<T> {
    fn drop(&mut self) {
        // SAFETY: the value is there, as in `deref`, and nobody sees it afterwards.
        unsafe { self.0.assume_init_drop() };
        self.0.zeroize();
    }
}

/// Shows nothing of the value.
impl<T> fmt::Debug for Erased<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Erased")
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::mem::ManuallyDrop;

    use super::*;

    #[test]
    fn bytes_are_zeros_after_the_drop() {
        let mut place = ManuallyDrop::new(Erased::new([0xa5u8; 48]));
        assert_eq!(**place, [0xa5; 48]);
        // SAFETY: the value is not used afterwards; its place may hold any bytes.
        unsafe { ManuallyDrop::drop(&mut place) };
        // SAFETY: the place still belongs to this function, and arrays of bytes have no invalid values.
        let after = unsafe { (&raw const place).cast::<[u8; 48]>().read() };
        assert_eq!(after, [0; 48]);
    }

    #[test]
    fn the_value_is_dropped_once() {
        struct Counts<'a>(&'a Cell<u32>);
        impl Drop for Counts<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let count = Cell::new(0);
        let value = Erased::new(Counts(&count));
        assert_eq!((count.get(), format!("{value:?}")), (0, "Erased".to_owned()));
        drop(value);
        assert_eq!(count.get(), 1);
    }
}
