// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of options that stand for values of libraries.

/// Has each value of an option stand for the library's of the same name.
macro_rules! stands_for {
    ($ours:ident => $theirs:ty: $($name:ident),+) => {
        impl From<$ours> for $theirs {
            fn from(value: $ours) -> $theirs {
                match value {
                    $($ours::$name => <$theirs>::$name,)+
                }
            }
        }
    };
}
pub(crate) use stands_for;
