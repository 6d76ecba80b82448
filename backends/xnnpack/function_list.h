// Lists the functions of XNNPACK and pthreadpool that are called here. functions.h includes this
// file with several definitions of these macros:
//   OCTET_FUNCTION(name): in the headers of all releases since 2022, always with the same type
//   OCTET_FUNCTION_OF_TYPE(name, type): the same, but overloaded in the headers
//   OCTET_NEWER_FUNCTION(name, type): only some releases have it; ask opened_release() first
OCTET_FUNCTION(xnn_initialize)
OCTET_FUNCTION(xnn_create_subgraph)
OCTET_FUNCTION(xnn_delete_subgraph)
OCTET_FUNCTION(xnn_create_runtime_v2)
OCTET_FUNCTION(xnn_delete_runtime)
OCTET_FUNCTION(xnn_setup_runtime)
OCTET_FUNCTION(xnn_invoke_runtime)
OCTET_FUNCTION(xnn_define_tensor_value)
OCTET_FUNCTION(xnn_define_quantized_tensor_value)
OCTET_FUNCTION(xnn_define_channelwise_quantized_tensor_value)
OCTET_FUNCTION(xnn_define_abs)
OCTET_FUNCTION(xnn_define_add2)
OCTET_FUNCTION(xnn_define_average_pooling_2d)
OCTET_FUNCTION(xnn_define_clamp)
OCTET_FUNCTION(xnn_define_convert)
OCTET_FUNCTION(xnn_define_convolution_2d)
OCTET_FUNCTION(xnn_define_deconvolution_2d)
OCTET_FUNCTION(xnn_define_depthwise_convolution_2d)
OCTET_FUNCTION(xnn_define_divide)
OCTET_FUNCTION(xnn_define_elu)
OCTET_FUNCTION(xnn_define_global_average_pooling_2d)
OCTET_FUNCTION(xnn_define_hardswish)
OCTET_FUNCTION(xnn_define_leaky_relu)
OCTET_FUNCTION(xnn_define_max_pooling_2d)
OCTET_FUNCTION(xnn_define_multiply2)
OCTET_FUNCTION(xnn_define_negate)
OCTET_FUNCTION(xnn_define_sigmoid)
OCTET_FUNCTION(xnn_define_square_root)
OCTET_FUNCTION(xnn_define_static_constant_pad)
OCTET_FUNCTION(xnn_define_static_reshape)
OCTET_FUNCTION(xnn_define_static_resize_bilinear_2d)
OCTET_FUNCTION(xnn_define_subtract)
OCTET_NEWER_FUNCTION(xnn_define_tanh, xnn_status(xnn_subgraph_t, uint32_t, uint32_t, uint32_t))
// With the type that they have in Release::k2024, where the pointers to void are caches and
// xnn_quantization_params.
OCTET_NEWER_FUNCTION(xnn_create_fully_connected_nc_qd8_f32_qc8w,
                     xnn_status(size_t, size_t, size_t, size_t, const float*, const int8_t*,
                                const float*, float, float, uint32_t, void*, void*,
                                xnn_operator_t*))
OCTET_NEWER_FUNCTION(xnn_reshape_fully_connected_nc_qd8_f32_qc8w,
                     xnn_status(xnn_operator_t, size_t, pthreadpool_t))
OCTET_NEWER_FUNCTION(xnn_setup_fully_connected_nc_qd8_f32_qc8w,
                     xnn_status(xnn_operator_t, const int8_t*, float*, const void*))
OCTET_FUNCTION(xnn_run_operator)
OCTET_FUNCTION(xnn_delete_operator)
OCTET_FUNCTION(pthreadpool_create)
OCTET_FUNCTION(pthreadpool_destroy)
OCTET_FUNCTION(pthreadpool_get_threads_count)
// The header overloads these names, so their types are spelled out.
OCTET_FUNCTION_OF_TYPE(pthreadpool_parallelize_1d_tile_1d,
                       void(pthreadpool_t, pthreadpool_task_1d_tile_1d_t, void*, size_t, size_t,
                            uint32_t))
OCTET_FUNCTION_OF_TYPE(pthreadpool_parallelize_2d_tile_2d,
                       void(pthreadpool_t, pthreadpool_task_2d_tile_2d_t, void*, size_t, size_t,
                            size_t, size_t, uint32_t))
