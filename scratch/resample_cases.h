template <class T> void cases() {
  const Problem x2{"bilinear_x2", 32, 64, 1, 128, 128, 1, 256, 256};
  const Problem deep{"bilinear_x2_deep", 64, 256, 1, 32, 32, 1, 64, 64};
  const Problem lab{"bilinear_65_513", 16, 21, 1, 65, 65, 1, 513, 513};
  const Problem city{"cityscapes_x8", 8, 19, 1, 128, 256, 1, 1024, 2048};
  const Problem half{"bilinear_half", 64, 64, 1, 128, 128, 1, 64, 64};
  const Problem n2{"nearest_x2", 64, 256, 1, 40, 40, 1, 80, 80, false};
  const Problem n15{"nearest_x1.5", 64, 64, 1, 100, 100, 1, 150, 150, false};
  const Problem tri{"trilinear_x2", 4, 32, 64, 64, 64, 128, 128, 128};
  constexpr bool f32 = sizeof(T) == 4;
  constexpr Exact first = f32 ? Exact::none : Exact::first;
  constexpr Exact none = Exact::none, all = Exact::all;
  both<T, PlanarShape<first>>(x2); both<T, PlanarShape<first>>(deep); both<T, PlanarShape<first>>(city); both<T, PlanarShape<first>>(half);
  both<T, PlanarShape<all>>(n2); both<T, EvenPlanarShape<all>>(n15);
  both<T, OddPlanarShape<none>>(lab); both<T, PlanarVolumeShape<first>>(tri);
  both<T, ChannelShape<first, 2>>(x2); both<T, ChannelShape<first, 2>>(deep); both<T, ChannelShape<first, 1>>(half);
  both<T, FewChannelsShape<first>>(city); both<T, OddChannelsShape<none>>(lab);
  both<T, ChannelShape<all, 1>>(n2); both<T, ChannelShape<all, 1>>(n15); both<T, ChannelVolumeShape<first>>(tri);
  if constexpr (!f32) {
    both<T, ResampleShape<256, 8, 1, 1, 8, 8, 1, 4, false, all>>(n2);
    both<T, ResampleShape<256, 8, 1, 1, 4, 8, 1, 4, false, first>>(deep);
    g_pixel = 64;
    both<T, ChannelShape<first, 2>>(x2); both<T, ChannelShape<first, 2>>(deep); both<T, ChannelShape<first, 1>>(half);
    both<T, ChannelShape<all, 1>>(n2); both<T, ChannelShape<all, 1>>(n15);
    both<T, ResampleShape<256, 8, 1, 1, 8, 8, 1, 4, false, all>>(n2);
    both<T, ResampleShape<256, 8, 1, 1, 8, 8, 1, 4, false, all>>(n15);
    both<T, ResampleShape<256, 8, 1, 1, 4, 8, 1, 4, false, first>>(deep);
    both<T, ResampleShape<256, 8, 1, 1, 4, 8, 1, 4, false, first>>(x2);
    g_pixel = 32;
  }
#ifdef EMULATE
  Problem odd{"odd", 2, 5, 1, 13, 17, 1, 29, 7};
  using O1 = ResampleShape<256, 1, 5, 1, 1, 8, 1, 4, true, none>; using O2 = ResampleShape<64, 1, 4, 1, 1, 8, 1, 4, false, none>;
  both<T, O1>(odd); both<T, O2>(odd);
  odd = {"corners", 2, 5, 1, 13, 17, 1, 41, 37, true, bp::Convention::align_corners};
  both<T, O1>(odd); both<T, O2>(odd);
  odd = {"one", 2, 5, 1, 1, 1, 1, 33, 33};
  both<T, O1>(odd); both<T, O2>(odd);
  odd = {"tri odd", 1, 5, 5, 6, 7, 11, 9, 3};
  using O3 = ResampleShape<256, 1, 5, 1, 1, 4, 2, 6, true, none>; using O4 = ResampleShape<256, 1, 4, 1, 1, 4, 4, 3, false, none>;
  both<T, O3>(odd); both<T, O4>(odd);
  odd = {"tri odd down", 1, 5, 15, 6, 7, 6, 9, 33};
  both<T, O3>(odd); both<T, O4>(odd);
#endif
}
