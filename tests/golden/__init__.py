"""Everything that modelkin says, frozen before the code is rearranged and compared afterwards."""
