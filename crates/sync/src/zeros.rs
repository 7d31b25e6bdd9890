// SPDX-License-Identifier: MIT OR Apache-2.0
//! Vectors of counters that take memory only where something has been counted.
//!
//! A worker has counters for every element, and touches few of them in a large configuration. `vec![Counters::default(); n]` writes
//! all of them when it is made, so the kernel must give a page for each. [`zeros`] asks for memory that is zero, which the kernel
//! gives page by page when it is first written.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};

/// A type whose bytes may all be zero. [`all_zero!`](crate::all_zero) says so of a struct of such types.
///
/// # Safety
/// Memory of zeroes must be a valid value of the type.
pub unsafe trait Zero {}

// SAFETY: zeroes are the numbers 0 and `false`.
unsafe impl Zero for u64 {}
// SAFETY: as above.
unsafe impl Zero for u32 {}
// SAFETY: as above.
unsafe impl Zero for bool {}
// SAFETY: as above.
unsafe impl Zero for std::sync::atomic::AtomicU64 {}
// SAFETY: an absent box of a sized type is a null pointer: the standard library promises this form.
unsafe impl<T> Zero for Option<Box<T>> {}

/// Says of structs that zeroes are valid values of them, which it checks: all their fields are named, and of such types.
///
/// ```
/// #[derive(Debug, PartialEq)]
/// struct Counts { packets: u64, seen: bool }
/// junctor_sync::all_zero!(Counts { packets, seen });
/// assert_eq!(junctor_sync::zeros::zeros::<Counts>(2)[1], Counts { packets: 0, seen: false });
/// ```
///
/// A field that cannot be zero, or is left out, is an error:
/// ```compile_fail
/// struct Named { name: &'static str }
/// junctor_sync::all_zero!(Named { name });
/// ```
/// ```compile_fail
/// struct Counts { packets: u64, name: &'static str }
/// junctor_sync::all_zero!(Counts { packets });
/// ```
#[macro_export]
macro_rules! all_zero {
    ($name:ident { $($field:tt),* $(,)? }) => {
        const _: () = {
            #[allow(dead_code)]
            fn fields(value: &$name) {
                fn zero<T: $crate::zeros::Zero>(_: &T) {}
                let $name { $($field: _),* } = value;
                $(zero(&value.$field);)*
            }
        };
        // SAFETY: it is a struct of which all fields are listed, and zeroes are valid for each of them.
        unsafe impl $crate::zeros::Zero for $name {}
    };
}

/// `n` values whose bytes are zero.
///
/// # Panics
/// They would take more than `isize::MAX` bytes.
pub fn zeros<T: Zero>(n: usize) -> Vec<T> {
    let layout = Layout::array::<T>(n).expect("a vector within the address space");
    if layout.size() == 0 {
        assert_eq!(n, 0, "counters have a size");
        return Vec::new();
    }
    // SAFETY: the layout has a size. The block is of the global heap, has the layout of `n` values, and its zeroes are valid for each of
    // them (`Zero`).
    unsafe {
        let block = alloc_zeroed(layout);
        if block.is_null() {
            handle_alloc_error(layout);
        }
        Vec::from_raw_parts(block.cast(), n, n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Mixed {
        count: u64,
        list: Option<Box<[u64; 3]>>,
        flag: bool,
    }
    all_zero!(Mixed { count, list, flag });

    #[test]
    fn zeros_are_values() {
        let mut all = zeros::<Mixed>(1000);
        assert!(all.iter().all(|m| m.count == 0 && m.list.is_none() && !m.flag));
        all[7].list = Some(Box::new([1, 2, 3]));
        all.push(Mixed { count: 1, list: None, flag: true });
        assert_eq!((all.len(), all[7].list.as_deref()), (1001, Some(&[1, 2, 3])));
        assert!(zeros::<u64>(0).is_empty());
    }
}
